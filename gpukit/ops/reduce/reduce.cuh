// Reductions along any axes of a strided array. Op: see reduce_ops.cuh; tree: see common/reduce.cuh.
#pragma once
#include "gpukit/ops/reduce/reduce_ops.cuh"

namespace gpukit {

GPUKIT_DEVICE int64_t input_offset(const ReduceParams& p, int64_t output) {
  return space_offset(p.kept_rank, p.kept_shape, p.kept_in, output);
}
GPUKIT_DEVICE int64_t output_offset(const ReduceParams& p, int64_t output) {
  return space_offset(p.kept_rank, p.kept_shape, p.kept_out, output);
}
GPUKIT_DEVICE int64_t reduced_offset(const ReduceParams& p, int64_t index) {
  return space_offset(p.reduced_rank, p.reduced_shape, p.reduced_in, index);
}

template <typename Op>
GPUKIT_DEVICE void emit(void* out, typename Op::Acc* partials, int64_t output, int64_t segment, typename Op::Acc v,
                        const ReduceParams& p) {
  if (p.segments.value == 1)
    Op::finish(out, output_offset(p, output), v, p);
  else
    partials[p.partials_by_segment ? segment * p.outputs + output : output * p.segments.value + segment] = v;
}

/// 16 bytes of a row stay words until they are used: elements of 2 bytes would take a register each.
template <typename Op, int V>
struct RowLoad {
  using Raw = Vec<uint32_t, 4>;
  static_assert(V * sizeof(typename Op::Element) == sizeof(Raw), "one access");
  const typename Op::Element* row;
  const ReduceParams& p;
  GPUKIT_DEVICE static Raw words(const typename Op::Element* at) {
    return load_vec<uint32_t, 4>(reinterpret_cast<const uint32_t*>(at));
  }
  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t last) const {
    if (i + (N - 1) * step <= last) {
      const typename Op::Element* at = row + i;  // one address and fixed steps
#pragma unroll
      for (int u = 0; u < N; ++u) raw[u] = words(at + u * step);
    } else {
#pragma unroll
      for (int u = 0; u < N; ++u) raw[u] = words(row + at_most(i + u * step, last));
    }
  }
  GPUKIT_DEVICE typename Op::Acc unit(const Raw& raw, int64_t i) const {
    Vec<typename Op::Element, V> x;
    memcpy(&x, &raw, sizeof(x));
    typename Op::Acc v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = Op::load(x.v[k], i + k, p);
    return fold<Op, V>(v);
  }
};

/// The same for rows that start and end anywhere: the two aligned accesses that 16 bytes lie in, shifted together.
template <typename Op, int V>
struct ShiftedLoad {
  using Raw = Vec<uint32_t, 4>;
  using Element = typename Op::Element;
  const Element* row;
  const ReduceParams& p;

  /// Both accesses lie within the row.
  GPUKIT_DEVICE static Raw shifted(const Element* at) {
    const auto place = reinterpret_cast<unsigned long long>(at);
    const unsigned off = static_cast<unsigned>(place) & 15;
    const auto* from = reinterpret_cast<const uint32_t*>(place - off);
    const Raw low = load_vec<uint32_t, 4>(from), high = load_vec<uint32_t, 4>(from + 4);
    uint32_t w[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = low.v[i], w[i + 4] = high.v[i];
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = off & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = off & 4 ? w[i + 1] : w[i];
    Raw raw;
#pragma unroll
    for (int i = 0; i < 4; ++i) raw.v[i] = __funnelshift_r(w[i], w[i + 1], (off & 3) * 8);
    return raw;
  }
  /// At the ends of a row, element by element.
  GPUKIT_DEVICE Raw single(int64_t i) const {
    Vec<Element, V> x;
#pragma unroll
    for (int k = 0; k < V; ++k) x.v[k] = row[at_most(i + k, p.length - 1)];
    Raw raw;
    memcpy(&raw, &x, sizeof(raw));
    return raw;
  }
  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t) const {
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int64_t at = i + u * step;
      if (at >= V && at + 2 * V <= p.length)
        raw[u] = shifted(row + at);
      else if (at < p.length)
        raw[u] = single(at);
      else
        raw[u] = Raw{};
    }
  }
  GPUKIT_DEVICE typename Op::Acc unit(const Raw& raw, int64_t i) const {
    Vec<Element, V> x;
    memcpy(&x, &raw, sizeof(x));
    typename Op::Acc v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = i + k < p.length ? Op::load(x.v[k], i + k, p) : Op::identity();
    return fold<Op, V>(v);
  }
};

template <typename Op>
struct StridedLoad {
  using Raw = typename Op::Element;
  const Raw* row;
  const ReduceParams& p;
  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t last) const {
#pragma unroll
    for (int u = 0; u < N; ++u) raw[u] = row[reduced_offset(p, at_most(i + u * step, last))];
  }
  GPUKIT_DEVICE typename Op::Acc unit(const Raw& raw, int64_t i) const { return Op::load(raw, i, p); }
};

/// Merges the partial results of the outputs of one block of `blocks`: kReduceThreads / p.finish_slots of them; a slot
/// takes consecutive segments, at most 32, kBatch loads at a time.
template <typename Op, int kBatch>
GPUKIT_DEVICE void merge_partials(void* out, const typename Op::Acc* partials, const ReduceParams& p, unsigned block,
                                  unsigned blocks) {
  using Acc = typename Op::Acc;
  __shared__ Acc shared[kReduceThreads];
  const int width = kReduceThreads / p.finish_slots;
  const int x = threadIdx.x % width;
  const int slot = threadIdx.x / width;
  int per = 1;
#pragma unroll 1
  while (static_cast<int64_t>(per) * p.finish_slots < p.segments.value) per *= 2;
#pragma unroll 1
  for (int64_t first = static_cast<int64_t>(block) * width; first < p.outputs;
       first += static_cast<int64_t>(blocks) * width) {
    const int64_t output = first + x;
    const Acc* at = partials + (p.partials_by_segment ? output : output * p.segments.value);
    const int64_t step = p.partials_by_segment ? p.outputs : 1;
    Acc v = Op::identity();
    Acc pending[2];
#pragma unroll 1
    for (int group = 0; group * kBatch < per; ++group) {
      // Loads first: one after another they would cost a trip to memory each.
      Acc batch[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int64_t segment = static_cast<int64_t>(slot) * per + group * kBatch + i;
        const bool valid = output < p.outputs && i < per && segment < p.segments.value;
        batch[i] = valid ? load_from_l2(at + segment * step) : Op::identity();
      }
      v = fold<Op, kBatch>(batch);
#pragma unroll
      for (int level = 0; level < 2; ++level) {
        const int below = group & ((2 << level) - 1);
        if (below == (2 << level) - 1) v = Op::merge(pending[level], v);
        if (below == (1 << level) - 1) pending[level] = v;
      }
    }
    shared[threadIdx.x] = v;
#pragma unroll 1
    for (int s = 1; s < p.finish_slots; s *= 2) {
      __syncthreads();
      if ((slot & (2 * s - 1)) == 0) {
        v = Op::merge(v, shared[threadIdx.x + s * width]);
        shared[threadIdx.x] = v;
      }
    }
    if (slot == 0 && output < p.outputs) {
      Op::finish(out, output_offset(p, output), v, p);
    }
    __syncthreads();
  }
}

/// The block that counts last merges. Thread 0 has written the partials of its block and publishes them by counting;
/// those of the others are in the L2, not in this SM's cache.
template <typename Op>
GPUKIT_DEVICE void merge_if_last(void* out, typename Op::Acc* partials, const ReduceParams& p) {
  __shared__ bool last;
  unsigned* counter = reinterpret_cast<unsigned*>(reinterpret_cast<unsigned char*>(partials) - kCounterOffset);
  if (threadIdx.x == 0) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    last = before == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  if (threadIdx.x == 0) *counter = 0;
  merge_partials<Op, 8>(out, partials, p, 0, 1);
}

/// Blocks per SM the compiler must leave registers for: as many as it can without spilling.
template <typename Op>
constexpr int reduce_blocks() {
  if (sizeof(typename Op::Element) == 1 || sizeof(typename Op::Acc) > 16) return 1;
  return sizeof(typename Op::Acc) <= 4 && !Op::kAnyOrder ? 3 : 2;
}

/// Whether a warp of reduce_rows asks for its next chunk before it merges one. Two blocks then leave it the registers.
template <typename Op>
constexpr bool reduce_ahead() {
  return reduce_blocks<Op>() == 3;
}

/// Groups of p.warps warps take one (row, segment) each.
template <typename Op, int V, int N, typename Load>
GPUKIT_DEVICE void reduce_wide(void* out, const typename Op::Element* x, typename Op::Acc* partials,
                               const ReduceParams& p) {
  using Acc = typename Op::Acc;
  __shared__ Acc slots[kReduceThreads / 32][kWalkLevels];
  __shared__ Acc totals[kReduceThreads / 32];
  const int warp = threadIdx.x >> 5;
  const int groups = (kReduceThreads / 32) / p.warps;
  const int in_group = warp & (p.warps - 1);
  const int64_t work = p.outputs * p.segments.value;
#pragma unroll 1
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < work;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    int64_t index = first + warp / p.warps;
    const bool active = index < work;
    int64_t output = active ? index : 0, segment = 0;
    if (p.segments.value > 1) output = quotient(output, p.segments, segment);
    const Load load{x + input_offset(p, output), p};
    Acc v = Op::identity();
    if (active) {
      const int64_t chunk = (segment * p.warps + in_group) * p.chunks_per_warp;
      if constexpr (reduce_ahead<Op>() && V > 1 && N == kReduceUnits)
        v = walk_chunks_ahead<Op, V, N>(load, chunk, p.chunks_per_warp, p.length, slots[warp]);
      else
        v = walk_chunks<Op, V, N>(load, chunk, p.chunks_per_warp, p.length, slots[warp]);
    }
    v = warps_tree<Op>(v, p.warps, totals);
    if (active && in_group == 0 && (threadIdx.x & 31) == 0) emit<Op>(out, partials, output, segment, v, p);
  }
  if (p.last_block) merge_if_last<Op>(out, partials, p);
}

// reduce_rows: the reduced axes are one contiguous run whose start and length are multiples of 16 bytes.
template <typename Op>
__global__ void __launch_bounds__(kReduceThreads, reduce_ahead<Op>() ? 2 : reduce_blocks<Op>())
    reduce_rows(void* out, const typename Op::Element* __restrict__ x, typename Op::Acc* partials,
                const __grid_constant__ ReduceParams p) {
  constexpr int V = 16 / sizeof(typename Op::Element);
  reduce_wide<Op, V, kReduceUnits, RowLoad<Op, V>>(out, x, partials, p);
}

// reduce_shifted: the same, from anywhere to anywhere.
template <typename Op>
__global__ void __launch_bounds__(kReduceThreads, reduce_blocks<Op>() == 1 ? 1 : 2)
    reduce_shifted(void* out, const typename Op::Element* __restrict__ x, typename Op::Acc* partials,
                   const __grid_constant__ ReduceParams p) {
  constexpr int V = 16 / sizeof(typename Op::Element);
  reduce_wide<Op, V, kReduceShiftedUnits, ShiftedLoad<Op, V>>(out, x, partials, p);
}

/// Short rows: p.lanes lanes take one, kReduceNarrow neighbouring elements each.
template <typename Op>
GPUKIT_DEVICE void reduce_narrow(void* out, const typename Op::Element* x, const ReduceParams& p) {
  const int rows = kReduceThreads / p.lanes;
  const int first_element = (threadIdx.x & (p.lanes - 1)) * kReduceNarrow;
#pragma unroll 1
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * rows; first < p.outputs;
       first += static_cast<int64_t>(gridDim.x) * rows) {
    const int64_t output = first + threadIdx.x / p.lanes;
    const bool active = output < p.outputs;
    const typename Op::Element* row = x + input_offset(p, active ? output : 0);
    typename Op::Acc v[kReduceNarrow];
#pragma unroll
    for (int u = 0; u < kReduceNarrow; ++u) {
      const int i = first_element + u;
      v[u] = active && i < p.length ? Op::load(row[reduced_offset(p, i)], i, p) : Op::identity();
    }
    const typename Op::Acc total = lanes_tree<Op>(fold<Op, kReduceNarrow>(v), p.lanes);
    if (active && first_element == 0) Op::finish(out, output_offset(p, output), total, p);
  }
}

// reduce_strided: any strides, and rows of at most kReduceNarrowLength elements.
template <typename Op>
__global__ void __launch_bounds__(kReduceThreads, 2)
    reduce_strided(void* out, const typename Op::Element* __restrict__ x, typename Op::Acc* partials,
                   const __grid_constant__ ReduceParams p) {
  if (p.narrow)
    reduce_narrow<Op>(out, x, p);
  else
    reduce_wide<Op, 1, kReduceUnits, StridedLoad<Op>>(out, x, partials, p);
}

/// Columns per thread: 32 bytes of accumulators, at most 16 bytes of input.
template <typename Op>
constexpr int columns_per_thread() {
  int v = 16 / sizeof(typename Op::Element);
  while (v > 1 && v * sizeof(typename Op::Acc) > 32) v /= 2;
  return v;
}

template <typename Op, int V>
struct ColumnLoad {
  using Raw = Vec<typename Op::Element, V>;
  const typename Op::Element* column;
  const ReduceParams& p;
  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t row, int step, int64_t last) const {
    const int64_t stride = p.reduced_in[0];
#pragma unroll
    for (int u = 0; u < N; ++u)
      raw[u] = load_vec<typename Op::Element, V>(column + at_most(row + u * step, last) * stride);
  }
  GPUKIT_DEVICE typename Op::Acc element(const Raw& raw, int k, int64_t row) const {
    return Op::load(raw.v[k], row, p);
  }
};

template <typename Op, int V>
GPUKIT_DEVICE void reduce_column_block(void* out, const typename Op::Element* x, typename Op::Acc* partials,
                                       typename Op::Acc* shared, int64_t index, const ReduceParams& p) {
  const int64_t columns = p.kept_shape[p.kept_rank - 1].value;
  int64_t block, segment = 0;
  int64_t batch = quotient(index, p.column_blocks, block);
  if (p.segments.value > 1) batch = quotient(batch, p.segments, segment);
  const int64_t column = (block * p.tx + threadIdx.x % p.tx) * V;
  const int64_t inside = column < columns ? column : 0;
  const ColumnLoad<Op, V> load{x + input_offset(p, batch * columns + inside), p};
  const int64_t first = segment * p.segment_rows;
  const int64_t last = at_most(first + p.segment_rows, p.length);
  typename Op::Acc acc[V];
  columns_tree<Op, V>(acc, load, first, last, p.tx, p.ty, p.rows_per_thread, shared, shared + p.ty * p.tx * V);
  // Through shared memory, so that neighbouring threads write neighbouring columns.
  __syncthreads();
  if (threadIdx.x < p.tx) {
#pragma unroll
    for (int k = 0; k < V; ++k) shared[threadIdx.x * V + k] = acc[k];
  }
  __syncthreads();
  const int64_t start = block * p.tx * V;
#pragma unroll 1
  for (int i = threadIdx.x; i < p.tx * V && start + i < columns; i += blockDim.x)
    emit<Op>(out, partials, batch * columns + start + i, segment, shared[i], p);
}

// reduce_columns: one reduced axis, and the last kept axis is contiguous; a block takes p.tx threads' columns and one
// segment of rows. Dynamic shared memory: (p.ty + levels of the walk) * p.tx * V accumulators.
template <typename Op>
__global__ void __launch_bounds__(kReduceThreads, reduce_blocks<Op>())
    reduce_columns(void* out, const typename Op::Element* __restrict__ x, typename Op::Acc* partials,
                   const __grid_constant__ ReduceParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  typename Op::Acc* shared = reinterpret_cast<typename Op::Acc*>(memory);
  const int64_t work = p.batches * p.column_blocks.value * p.segments.value;
#pragma unroll 1
  for (int64_t index = blockIdx.x; index < work; index += gridDim.x) {
    if (p.vector)
      reduce_column_block<Op, columns_per_thread<Op>()>(out, x, partials, shared, index, p);
    else
      reduce_column_block<Op, 1>(out, x, partials, shared, index, p);
    __syncthreads();
  }
}

// reduce_finish: merges the partial results of many outputs.
template <typename Op>
__global__ void __launch_bounds__(kReduceThreads, 2)
    reduce_finish(void* out, const typename Op::Acc* partials, const __grid_constant__ ReduceParams p) {
  merge_partials<Op, sizeof(typename Op::Acc) <= 4 ? 32 : 8>(out, partials, p, blockIdx.x, gridDim.x);
}

}  // namespace gpukit
