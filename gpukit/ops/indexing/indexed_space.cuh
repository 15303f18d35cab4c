// The iteration of an indexed read or write, as kernels and the code that launches them see it.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kMaxIndices = kKernelRank;
/// Columns (or positions) a thread has in flight.
inline constexpr int kIndexedUnroll = 4;

/// How the values of an index array are to be read.
enum class IndexKind : int32_t {
  int32,
  int64,
  uint64,
  offset,  // int64 element offsets, already checked; kSkippedOffset marks an element to leave out
};

/// No view reaches this element offset.
inline constexpr int64_t kSkippedOffset = -0x7fffffffffffffffLL - 1;
/// Eight bytes of 0x80: what a claim table is filled with.
inline constexpr int64_t kEmptyClaim = static_cast<int64_t>(0x8080808080808080ULL);

/// Element strides of three operands over one shape, innermost axis last: the plain array (result or values), the
/// indexed array (0 on axes the index stands for) and the index array (0 on axes it does not depend on). The indexed
/// element is at sum(coordinate * indexed_strides) + wrapped index * axis_stride.
struct IndexedSpace {
  int32_t rank;  // at least 1
  IndexKind kind;
  int32_t fault_op;  // runtime::fault_code
  int32_t unused;
  int64_t axis_size;
  int64_t axis_stride;
  int64_t shape[kKernelRank];
  int64_t plain_strides[kKernelRank];
  int64_t indexed_strides[kKernelRank];
  int64_t index_strides[kKernelRank];
};

/// Positions of several index arrays broadcast to one shape, and where they lead in the indexed array.
struct ResolveSpace {
  int32_t rank;  // at least 1
  int32_t num_indices;
  int32_t fault_op;
  int32_t unused;
  int64_t size;
  int64_t capacity;  // of the claim table, a power of two; 0: equal positions may stay
  int64_t shape[kKernelRank];
  int64_t indexed_strides[kKernelRank];
  int64_t index_strides[kMaxIndices][kKernelRank];
  int64_t axis_sizes[kMaxIndices];
  int64_t axis_strides[kMaxIndices];
  IndexKind kinds[kMaxIndices];
};

/// nonzero: a block owns kFlagsPerBlock neighbouring elements, a thread kFlagsPerThread of them.
inline constexpr int kFlagsPerThread = 16;
inline constexpr int kFlagBlock = 256;
inline constexpr int kFlagsPerBlock = kFlagsPerThread * kFlagBlock;
inline constexpr int kScanBlock = 1024;

struct FlagShape {
  int32_t rank;
  int32_t unused;
  int64_t shape[kKernelRank];
};

/// Negative values count from the end. The result is in [0, size), or -1 for a value that names no element.
GPUKIT_DEVICE int64_t wrap_index(int64_t value, int64_t size, IndexKind kind) {
  if (value < 0 && kind != IndexKind::uint64) value += size;
  return value >= 0 && value < size ? value : -1;
}

}  // namespace gpukit
