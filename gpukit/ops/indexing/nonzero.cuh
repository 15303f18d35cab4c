// Coordinates of the true elements of a contiguous bool array, in row-major order: count per block, one scan, write.
#pragma once
#include "gpukit/ops/indexing/index_load.cuh"

namespace gpukit {

/// Bit i is set when element first + i exists and is true.
GPUKIT_DEVICE uint32_t load_flags(const uint8_t* flags, int64_t first, int64_t size) {
  uint32_t bits = 0;
  if (first + kFlagsPerThread <= size && (reinterpret_cast<uint64_t>(flags + first) & 15) == 0) {
    const uint4 packed = *reinterpret_cast<const uint4*>(flags + first);
    const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < kFlagsPerThread; ++i)
      if ((words[i / 4] >> (8 * (i % 4))) & 0xff) bits |= 1u << i;
  } else {
    for (int i = 0; i < kFlagsPerThread && first + i < size; ++i)
      if (flags[first + i] != 0) bits |= 1u << i;
  }
  return bits;
}

/// Sum of `value` over the threads before this one; `total` gets the block's sum. Needs one value per warp in `shared`.
template <typename T>
GPUKIT_DEVICE T block_exclusive_scan(T value, T* shared, T* total) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, num_warps = blockDim.x >> 5;
  T running = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, running, step);
    if (lane >= step) running += other;
  }
  __syncthreads();
  if (lane == 31) shared[warp] = running;
  __syncthreads();
  if (warp == 0) {
    T sum = lane < num_warps ? shared[lane] : T(0);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const T other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane < num_warps) shared[lane] = sum;
  }
  __syncthreads();
  *total = shared[num_warps - 1];
  return running - value + (warp == 0 ? T(0) : shared[warp - 1]);
}

__global__ void __launch_bounds__(kFlagBlock)
    count_flags(int64_t* __restrict__ counts, const uint8_t* __restrict__ flags, int64_t size) {
  __shared__ int32_t shared[kFlagBlock / 32];
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kFlagBlock + threadIdx.x) * kFlagsPerThread;
  int32_t total;
  block_exclusive_scan<int32_t>(__popc(load_flags(flags, first, size)), shared, &total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/// One block. counts[i] becomes the sum of those before it; counts[num_blocks] the sum of all.
__global__ void __launch_bounds__(kScanBlock) scan_counts(int64_t* counts, int64_t num_blocks) {
  __shared__ int64_t shared[kScanBlock / 32];
  int64_t carry = 0;
  for (int64_t first = 0; first < num_blocks; first += kScanBlock) {
    const int64_t at = first + threadIdx.x;
    const int64_t value = at < num_blocks ? counts[at] : 0;
    int64_t total;
    const int64_t before = block_exclusive_scan<int64_t>(value, shared, &total);
    if (at < num_blocks) counts[at] = carry + before;
    carry += total;
  }
  if (threadIdx.x == 0) counts[num_blocks] = carry;
}

/// coordinates is [rank][num_true].
__global__ void __launch_bounds__(kFlagBlock)
    write_coordinates(int64_t* __restrict__ coordinates, const uint8_t* __restrict__ flags,
                      const int64_t* __restrict__ before_block, int64_t size, int64_t num_true,
                      const __grid_constant__ FlagShape space) {
  __shared__ int32_t shared[kFlagBlock / 32];
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kFlagBlock + threadIdx.x) * kFlagsPerThread;
  uint32_t bits = load_flags(flags, first, size);
  int32_t total;
  int64_t at = before_block[blockIdx.x] + block_exclusive_scan<int32_t>(__popc(bits), shared, &total);
  while (bits != 0) {
    const int bit = __ffs(bits) - 1;
    bits &= bits - 1;
    int64_t rest = first + bit;
    for (int axis = space.rank - 1; axis > 0; --axis) {
      const int64_t quotient = quotient_of(rest, space.shape[axis]);
      coordinates[axis * num_true + at] = rest - quotient * space.shape[axis];
      rest = quotient;
    }
    coordinates[at] = rest;
    ++at;
  }
}

}  // namespace gpukit
