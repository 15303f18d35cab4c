// Indexed reads and writes of elements of one width. A block is blockDim.y rows of the innermost axis by blockDim.x
// columns; blockIdx.y cuts long rows. Plain and indexed memory do not overlap.
#pragma once
#include "gpukit/ops/common/half.cuh"
#include "gpukit/ops/indexing/index_load.cuh"

namespace gpukit {

/// The value of a whole write when there is no array of values.
struct alignas(16) Pattern {
  uint8_t bytes[16];
};

struct RowStart {
  int64_t plain, indexed, index;
};

GPUKIT_DEVICE int64_t index_offset(const IndexedSpace& space, const void* index, int64_t at) {
  return load_index_offset(index, at, space.kind, space.axis_size, space.axis_stride);
}
GPUKIT_DEVICE void note_bad(const IndexedSpace& space, const void* index, int64_t at, Fault* fault) {
  note_bad_index(index, at, space.kind, space.axis_size, fault, space.fault_op);
}

/// Offsets at coordinate 0 of the innermost axis.
GPUKIT_DEVICE RowStart row_start(const IndexedSpace& space, int64_t row) {
  RowStart at = {0, 0, 0};
  for_each_coordinate(row, space.shape, 0, space.rank - 1, [&](int axis, int64_t c) {
    at.plain += c * space.plain_strides[axis];
    at.indexed += c * space.indexed_strides[axis];
    at.index += c * space.index_strides[axis];
  });
  return at;
}

/// This thread's columns, kIndexedUnroll of them per round: load(slot, column) for each, then save(slot, column) for
/// each.
template <typename Load, typename Save>
GPUKIT_DEVICE void for_each_column(int64_t width, Load load, Save save) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * kIndexedUnroll;
  for (int64_t first = blockIdx.y * step + threadIdx.x; first < width; first += gridDim.y * step) {
#pragma unroll
    for (int i = 0; i < kIndexedUnroll; ++i)
      if (first + i * static_cast<int64_t>(blockDim.x) < width) load(i, first + i * static_cast<int64_t>(blockDim.x));
#pragma unroll
    for (int i = 0; i < kIndexedUnroll; ++i)
      if (first + i * static_cast<int64_t>(blockDim.x) < width) save(i, first + i * static_cast<int64_t>(blockDim.x));
  }
}

/// out = x at the index; 0 where the index is bad. kRows: the index is the same along the innermost axis.
template <typename T, bool kRows>
__global__ void __launch_bounds__(256, 4)
    indexed_get(T* __restrict__ out, const T* __restrict__ x, const void* __restrict__ index, Fault* fault,
                const __grid_constant__ IndexedSpace space, int64_t rows) {
  const int last = space.rank - 1;
  const int64_t width = space.shape[last];
  const int64_t plain_step = space.plain_strides[last], indexed_step = space.indexed_strides[last];
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<int64_t>(gridDim.x) * blockDim.y) {
    RowStart at = row_start(space, row);
    T* target = out + at.plain;
    T held[kIndexedUnroll];
    if constexpr (kRows) {
      const int64_t offset = index_offset(space, index, at.index);
      const bool good = offset != kSkippedOffset;
      if (!good) note_bad(space, index, at.index, fault);
      const T* source = x + at.indexed + (good ? offset : 0);
      for_each_column(
          width, [&](int i, int64_t c) { held[i] = good ? source[c * indexed_step] : T{}; },
          [&](int i, int64_t c) { target[c * plain_step] = held[i]; });
    } else {
      const int64_t index_step = space.index_strides[last];
      const T* source = x + at.indexed;
      int64_t bad = -1;
      for_each_column(
          width,
          [&](int i, int64_t c) {
            const int64_t offset = index_offset(space, index, at.index + c * index_step);
            if (offset == kSkippedOffset) bad = at.index + c * index_step;
            held[i] = offset != kSkippedOffset ? source[c * indexed_step + offset] : T{};
          },
          [&](int i, int64_t c) { target[c * plain_step] = held[i]; });
      note_bad(space, index, bad, fault);
    }
  }
}

/// x at the index = values (or the pattern when values is null). No two positions lead to one element.
template <typename T, bool kRows>
__global__ void __launch_bounds__(256, 4)
    indexed_set(T* __restrict__ x, const T* __restrict__ values, const Pattern pattern, const void* __restrict__ index,
                Fault* fault, const __grid_constant__ IndexedSpace space, int64_t rows) {
  const int last = space.rank - 1;
  const int64_t width = space.shape[last];
  const int64_t plain_step = space.plain_strides[last], indexed_step = space.indexed_strides[last];
  const T constant = *reinterpret_cast<const T*>(pattern.bytes);
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += static_cast<int64_t>(gridDim.x) * blockDim.y) {
    RowStart at = row_start(space, row);
    T held[kIndexedUnroll];
    auto value = [&](int64_t c) { return values == nullptr ? constant : values[at.plain + c * plain_step]; };
    if constexpr (kRows) {
      const int64_t offset = index_offset(space, index, at.index);
      if (offset == kSkippedOffset) {
        note_bad(space, index, at.index, fault);
        continue;
      }
      T* target = x + at.indexed + offset;
      for_each_column(
          width, [&](int i, int64_t c) { held[i] = value(c); },
          [&](int i, int64_t c) { target[c * indexed_step] = held[i]; });
    } else {
      const int64_t index_step = space.index_strides[last];
      T* target = x + at.indexed;
      int64_t offsets[kIndexedUnroll];
      int64_t bad = -1;
      for_each_column(
          width,
          [&](int i, int64_t c) {
            held[i] = value(c);
            offsets[i] = index_offset(space, index, at.index + c * index_step);
            if (offsets[i] == kSkippedOffset) bad = at.index + c * index_step;
          },
          [&](int i, int64_t c) {
            if (offsets[i] != kSkippedOffset) target[c * indexed_step + offsets[i]] = held[i];
          });
      note_bad(space, index, bad, fault);
    }
  }
}

/// The same write where positions may lead to one element: a thread owns one line (a point of the axes after the first)
/// and writes its positions, along the first axis, in order, so the last one stays.
template <typename T>
__global__ void __launch_bounds__(256, 4)
    indexed_set_lines(T* __restrict__ x, const T* __restrict__ values, const Pattern pattern,
                      const void* __restrict__ index, Fault* fault, const __grid_constant__ IndexedSpace space,
                      int64_t lines) {
  const int64_t positions = space.shape[0];
  const T constant = *reinterpret_cast<const T*>(pattern.bytes);
  for (int64_t line = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; line < lines;
       line += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    RowStart at = {0, 0, 0};
    for_each_coordinate(line, space.shape, 1, space.rank - 1, [&](int axis, int64_t c) {
      at.plain += c * space.plain_strides[axis];
      at.indexed += c * space.indexed_strides[axis];
      at.index += c * space.index_strides[axis];
    });
    int64_t bad = -1;
    for (int64_t first = 0; first < positions; first += kIndexedUnroll) {
      T held[kIndexedUnroll];
      int64_t targets[kIndexedUnroll];
#pragma unroll
      for (int i = 0; i < kIndexedUnroll; ++i) {
        const int64_t p = first + i;
        if (p >= positions) break;
        const int64_t offset = index_offset(space, index, at.index + p * space.index_strides[0]);
        if (offset == kSkippedOffset) bad = at.index + p * space.index_strides[0];
        targets[i] = offset == kSkippedOffset ? offset : at.indexed + p * space.indexed_strides[0] + offset;
        held[i] = values == nullptr ? constant : values[at.plain + p * space.plain_strides[0]];
      }
#pragma unroll
      for (int i = 0; i < kIndexedUnroll; ++i)
        if (first + i < positions && targets[i] != kSkippedOffset) x[targets[i]] = held[i];
    }
    note_bad(space, index, bad, fault);
  }
}

}  // namespace gpukit
