#include "gpukit/ops/common/map_cpu.h"

#include <algorithm>

#include "gpukit/ops/common/trace.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

/// Elements that are not worth another thread; of narrow ones as many as make so many bytes.
constexpr int64_t kAlone = 16384, kAloneBytes = 131072;
/// Parts of those that threads take one after the other.
constexpr int64_t kParts = 4;
/// Rows shorter than this are walked across, in tiles that a first-level cache holds.
constexpr int64_t kShortRow = 16, kTileRows = 1024;

struct Work {
  StridedSpace space;
  int itemsizes[kMaxOperands] = {};
  ElementBytes scalars[kMaxOperands];
  RowFunction row;
};

/// Where the operands stand, in elements.
struct Place {
  int64_t offsets[kMaxOperands] = {};
  void step(const StridedSpace& space, int axis, int64_t count) {
    for (int i = 0; i < space.num_operands; ++i) offsets[i] += count * space.strides[i][axis];
  }
};

/// `n` elements along `axis` from `at`.
void run_row(const Work& work, void* const* p, const Place& at, int axis, int64_t n) {
  Row run{.size = n, .p = {}, .step = {}};
  for (int i = 0; i < work.space.num_operands; ++i) {
    const bool scalar = i > 0 && work.itemsizes[i] == 0;
    run.p[i] = scalar ? const_cast<unsigned char*>(work.scalars[i].bytes)
                      : static_cast<unsigned char*>(p[i]) + at.offsets[i] * work.itemsizes[i];
    run.step[i] = work.space.rank == 0 ? 1 : work.space.strides[i][axis];
  }
  work.row(run);
}

/// Elements [begin, end) in rows along the last axis.
void run_rows(const Work& work, void* const* p, int64_t begin, int64_t end) {
  const StridedSpace& space = work.space;
  const int last = space.rank - 1;
  const int64_t width = space.shape[last];
  int64_t index[kMaxRank] = {};
  Place at;
  int64_t rest = begin;
  for (int axis = last; axis >= 0; --axis) {
    index[axis] = rest % space.shape[axis];
    rest /= space.shape[axis];
    at.step(space, axis, index[axis]);
  }
  while (begin < end) {
    const int64_t n = std::min(width - index[last], end - begin);
    run_row(work, p, at, last, n);
    begin += n;
    at.step(space, last, -index[last]);
    index[last] = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      at.step(space, axis, 1);
      if (++index[axis] < space.shape[axis]) break;
      at.step(space, axis, -index[axis]);
      index[axis] = 0;
    }
  }
}

/// The two last axes in tiles, each walked along the last but one.
void run_tiles(const Work& work, void* const* p) {
  const StridedSpace& space = work.space;
  const int last = space.rank - 1, along = last - 1;
  const int64_t width = space.shape[last], length = space.shape[along];
  const int64_t tiles = (length + kTileRows - 1) / kTileRows, outer = space.size / (width * length);
  const int64_t grain = std::max<int64_t>(1, kAlone / (std::min(length, kTileRows) * width));
  parallel_for(outer * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % tiles * kTileRows;
      Place at;
      at.step(space, along, first);
      int64_t rest = task / tiles;
      for (int axis = along - 1; axis >= 0; --axis) {
        at.step(space, axis, rest % space.shape[axis]);
        rest /= space.shape[axis];
      }
      for (int64_t column = 0; column < width; ++column) {
        run_row(work, p, at, along, std::min(kTileRows, length - first));
        at.step(space, last, 1);
      }
    }
  });
}

}  // namespace

void map_rows(const char* name, const Array& out, std::initializer_list<ElementInput> inputs, RowFunction row) {
  if (Trace* trace = current_trace()) [[unlikely]]
    return trace->add(out, inputs, row);
  if (out.size() == 0) return;
  Work work;
  memory::Use uses[kMaxOperands] = {write(out)};
  const Array* arrays[kMaxOperands - 1] = {};
  const int count = static_cast<int>(inputs.size());
  work.row = row;
  work.itemsizes[0] = itemsize(out.dtype());
  for (int i = 0; i < count; ++i) {
    const ElementInput& input = inputs.begin()[i];
    arrays[i] = input.array;
    work.scalars[i + 1] = input.scalar;
    if (input.array == nullptr) continue;
    uses[i + 1] = read(*input.array);
    work.itemsizes[i + 1] = itemsize(input.array->dtype());
  }
  work.space = count == 1   ? strided_space(out, {arrays[0]})
               : count == 2 ? strided_space(out, {arrays[0], arrays[1]})
                            : strided_space(out, {arrays[0], arrays[1], arrays[2]});

  runtime::run_host(name, out.device(), std::span<const memory::Use>(uses, count + 1), [work](void* const* p) {
    const StridedSpace& space = work.space;
    if (space.rank == 0) return run_row(work, p, Place{}, 0, 1);
    if (space.rank > 1 && space.shape[space.rank - 1] < kShortRow &&
        space.shape[space.rank - 2] > space.shape[space.rank - 1])
      return run_tiles(work, p);
    const int64_t alone = std::max(kAlone, kAloneBytes / std::max(work.itemsizes[0], 1));
    if (space.size <= alone) return run_rows(work, p, 0, space.size);
    parallel_for(space.size, alone / kParts, [&](int64_t begin, int64_t end) { run_rows(work, p, begin, end); });
  });
}

}  // namespace gpukit::cpu
