// Iteration spaces: several arrays broadcast to one shape, axes merged and ordered for memory.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

inline constexpr int kMaxOperands = 4;

/// shape is that of the iteration; strides[i][axis] in elements of operand i (0 on broadcast axes).
/// Operand 0 is the output. Axes are sorted so that operand 0's fastest axis is last, size-1 axes dropped, and
/// neighbours merged where every operand allows it. rank 0 means one element; rank 1 with all strides 1 is fully
/// contiguous.
struct StridedSpace {
  int rank = 0;
  int num_operands = 0;
  int64_t size = 0;
  int64_t shape[kMaxRank] = {};
  int64_t strides[kMaxOperands][kMaxRank] = {};
  bool contiguous() const {
    if (rank == 0) return true;
    if (rank != 1) return false;
    for (int i = 0; i < num_operands; ++i)
      if (strides[i][0] != 1) return false;
    return true;
  }
};

/// Inputs must broadcast to out's shape. A null operand (a scalar) gets stride 0 everywhere.
StridedSpace strided_space(const Array& out, std::initializer_list<const Array*> inputs);

}  // namespace gpukit
