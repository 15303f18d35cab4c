// Index arrays turned into element offsets: one thread per position. With a claim table, of the positions that lead to
// one element only the highest stays; the table's layout may vary between runs, what stays does not.
#pragma once
#include "gpukit/ops/indexing/index_load.cuh"

namespace gpukit {

GPUKIT_DEVICE uint64_t mix_bits(uint64_t v) {
  v ^= v >> 33;
  v *= 0xff51afd7ed558ccdULL;
  v ^= v >> 33;
  v *= 0xc4ceb9fe1a85ec53ULL;
  return v ^ (v >> 33);
}

/// `claims` is [2][capacity]: offsets and the highest position that asked for each, both starting as kEmptyClaim.
/// resolved[p] becomes the offset, or with claims the slot, of position p; kSkippedOffset for a bad index.
__global__ void __launch_bounds__(256)
    resolve_indices(int64_t* __restrict__ resolved, int64_t* claims, const void* i0, const void* i1, const void* i2,
                    const void* i3, const void* i4, const void* i5, const void* i6, const void* i7, Fault* fault,
                    const __grid_constant__ ResolveSpace space) {
  const void* indices[kMaxIndices] = {i0, i1, i2, i3, i4, i5, i6, i7};
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < space.size;
       p += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    int64_t offset = 0;
    int64_t at[kMaxIndices] = {};
    for_each_coordinate(p, space.shape, 0, space.rank, [&](int axis, int64_t c) {
      offset += c * space.indexed_strides[axis];
#pragma unroll
      for (int j = 0; j < kMaxIndices; ++j) at[j] += c * space.index_strides[j][axis];
    });
    bool good = true;
#pragma unroll
    for (int j = 0; j < kMaxIndices; ++j) {
      if (j >= space.num_indices) break;
      const int64_t part =
          load_index_offset(indices[j], at[j], space.kinds[j], space.axis_sizes[j], space.axis_strides[j]);
      if (part == kSkippedOffset) {
        note_bad_index(indices[j], at[j], space.kinds[j], space.axis_sizes[j], fault, space.fault_op);
        good = false;
      } else {
        offset += part;
      }
    }
    if (!good) {
      resolved[p] = kSkippedOffset;
      continue;
    }
    if (space.capacity == 0) {
      resolved[p] = offset;
      continue;
    }
    // At most half of the slots are ever taken, so the walk ends.
    const uint64_t mask = static_cast<uint64_t>(space.capacity) - 1;
    uint64_t slot = mix_bits(static_cast<uint64_t>(offset)) & mask;
    for (;;) {
      const unsigned long long empty = static_cast<unsigned long long>(kEmptyClaim);
      const unsigned long long wanted = static_cast<unsigned long long>(offset);
      const unsigned long long found = atomicCAS(reinterpret_cast<unsigned long long*>(claims) + slot, empty, wanted);
      if (found == empty || found == wanted) break;
      slot = (slot + 1) & mask;
    }
    atomicMax(reinterpret_cast<long long*>(claims) + space.capacity + slot, static_cast<long long>(p));
    resolved[p] = static_cast<int64_t>(slot);
  }
}

/// After resolve_indices with claims: slots back to offsets; positions that lost become kSkippedOffset.
__global__ void __launch_bounds__(256)
    keep_winners(int64_t* __restrict__ resolved, const int64_t* __restrict__ claims, int64_t capacity, int64_t size) {
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; p < size;
       p += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t slot = resolved[p];
    if (slot == kSkippedOffset) continue;
    resolved[p] = claims[capacity + slot] == p ? claims[slot] : kSkippedOffset;
  }
}

}  // namespace gpukit
