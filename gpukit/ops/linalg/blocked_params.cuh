// What one step of a blocked factorisation knows of its matrices, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit::linalg {

/// In elements.
struct MatrixStrides {
  int64_t row, column, batch;
};

/// One step for each of `batch` matrices [rows, columns].
struct StepParams {
  int64_t batch, rows, columns;
  MatrixStrides a, b;  // of the matrix and of the other operand
  int64_t vector;      // from a matrix's pivots or factors to those of the next
  int32_t flag;        // what the step says
  int32_t in_shared;   // a panel is worked on in shared memory
};

/// Columns of a diagonal block, by the bytes of an element.
GPUKIT_DEVICE constexpr int diagonal_block(int64_t element_bytes) { return element_bytes <= 8 ? 64 : 32; }

inline constexpr int kPanelThreads = 1024, kMostPanelColumns = 64;
/// The range of a QR's elements is found in this many parts.
inline constexpr int kRangeParts = 64;

}  // namespace gpukit::linalg
