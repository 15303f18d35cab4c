// The loop of ReductionKernel's programs.
//
// An output's elements, in row-major order of the reduced axes, are cut into segments of kSegment. Lane l of a segment
// takes elements l, l + lanes, ... one after the other; lanes are merged by halves. Segments are elements of the next
// launch. All of it follows from the number of elements alone, so the order is one for any chip and layout.
#pragma once
#include "gpukit/ops/custom/custom.cuh"

namespace gpukit::custom {

inline constexpr int kReductionThreads = 256;

/// What one launch does. Items are the segments of all outputs.
struct ReductionStep {
  long long outputs, count, segments, segment_size;
  int log2_lanes;
  int lanes_first;  // neighbouring threads: 1 the lanes of an item, 0 items
};

/// `map(output, element)` gives an A, `finish(output, A)` takes what an output's elements come to where there is one
/// segment, else it goes to `partials`. `empty()` is the value without elements. Every thread of the block calls it.
template <typename A, typename Map, typename Merge, typename Empty, typename Finish>
GPUKIT_DEVICE void reduce_items(const ReductionStep& step, A* partials, Map&& map, Merge&& merge, Empty&& empty,
                                Finish&& finish) {
  static_assert(sizeof(A) <= 64, "reduce_type may take 64 bytes at most");
  __shared__ __align__(16) unsigned char memory[kReductionThreads * sizeof(A)];
  A* values = reinterpret_cast<A*>(memory);
  const int lanes = 1 << step.log2_lanes, items_per_block = kReductionThreads >> step.log2_lanes;
  const int thread = threadIdx.x;
  const int lane = step.lanes_first ? thread & (lanes - 1) : thread / items_per_block;
  const int local = step.lanes_first ? thread >> step.log2_lanes : thread % items_per_block;
  const int apart = step.lanes_first ? 1 : items_per_block;
  const long long item = static_cast<long long>(blockIdx.x) * items_per_block + local;
  const bool live = item < step.outputs * step.segments;
  long long output = 0, segment = 0;
  if (step.segments == 1) {
    output = item;
  } else if (step.lanes_first) {
    output = item / step.segments;
    segment = item % step.segments;
  } else {
    output = item % step.outputs;
    segment = item / step.outputs;
  }
  const long long begin = segment * step.segment_size;
  const long long end = begin + step.segment_size < step.count ? begin + step.segment_size : step.count;
  const int filled = !live ? 0 : end - begin < lanes ? static_cast<int>(end - begin) : lanes;
  if (lane < filled) {
    A value = map(output, begin + lane);
#pragma unroll 8
    for (long long i = begin + lane + lanes; i < end; i += lanes) value = merge(value, map(output, i));
    values[thread] = value;
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half && lane + half < filled) values[thread] = merge(values[thread], values[thread + half * apart]);
  }
  if (!live || lane != 0) return;
  const A value = filled > 0 ? values[thread] : empty();
  if (step.segments == 1)
    finish(output, value);
  else
    partials[output * step.segments + segment] = value;
}

/// The steps of an operand over the axes that stay and over those that are reduced.
template <int kKept, int kReduced, int kOperands>
struct ReductionLoop {
  Loop<kKept, kOperands> kept;
  Loop<kReduced, kOperands> reduced;
};

template <int kRank, int kOperands>
GPUKIT_DEVICE long long offset_of(const Loop<kRank, kOperands>& loop, int operand, long long i) {
  long long sum = 0;
#pragma unroll
  for (int axis = kRank - 1; axis > 0; --axis) {
    const long long next = i / loop.shape[axis];
    sum += (i - next * loop.shape[axis]) * loop.strides[operand][axis];
    i = next;
  }
  return sum + i * loop.strides[operand][0];
}

/// `_in_ind` and `_out_ind` of a program.
struct Extent {
  long long elements;
  GPUKIT_DEVICE long long size() const { return elements; }
};

}  // namespace gpukit::custom
