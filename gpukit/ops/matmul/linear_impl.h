// Between linear.cpp and the kernels of a GPU: matrices of 16-bit floats, checked. `out` shares memory with none of the
// inputs, but may be the residual itself.
#pragma once

#include "gpukit/ops/matmul/linear.h"

namespace gpukit::cuda {

/// Rows and columns of the output, or of both products of a pair, that a block computes at a time.
struct LinearForm {
  int rows, columns;
  bool operator==(const LinearForm&) const = default;
};

/// The fastest for [m, n] sums of k. `loaded`: columns of weights that one column of the output takes; 2 for a pair.
LinearForm choose_linear_form(int64_t m, int64_t n, int64_t k, int loaded, int sm_count);

/// Of [m, k] by [n, k] into [m, n]: true when launched as one kernel, false where none serves the chip or the layout.
/// The bits are those of the product followed by end_linear.
bool launch_linear(const Array& out, const Array& input, const Array& weight, const LinearOptions& options);
bool launch_linear_swiglu(const Array& out, const Array& input, const Array& gate, const Array& up);

/// What follows the product, whose sums are float32, dense, of out's shape. Any strides of the others.
void end_linear(const Array& out, const Array& sums, const LinearOptions& options);
void end_swiglu(const Array& out, const Array& gate, const Array& up);

}  // namespace gpukit::cuda
