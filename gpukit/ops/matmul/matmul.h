// Matrix products by NumPy's rules, for every arithmetic dtype and any strides; nothing is transposed or copied behind
// the scenes.
//
// Element (i, j) is the sum over k = 0, 1, 2, ... in that order, in one accumulator, so its bits depend on row i and
// column j alone: not on the shape around them, the number of threads or multiprocessors. float16 and bfloat16 are
// summed in float32 and rounded once; there a GPU's tensor cores add 16 products at a time, elsewhere every step is one
// fused multiply-add. Integers wrap around; bool is "any".
#pragma once

#include <optional>
#include <string>

#include "gpukit/array/array.h"

namespace gpukit {

enum class MatmulPrecision : uint8_t {
  automatic,  // exact, or what PYGPUKIT_ALLOW_TF32 allows
  exact,      // float32 products and sums
  tf32,       // float32 inputs may be rounded to TF32 (10 bits of mantissa); the CPU computes exactly all the same
};

/// Which kernels of a GPU serve; what cannot serve a product is refused, and so is each by name on the CPU.
enum class MatmulKernel : uint8_t {
  automatic,
  wgmma,     // tensor cores of sm_90, operands moved by the copy engine
  mma,       // tensor cores of sm_80 and later, any strides
  simt,      // CUDA cores, any chip, any strides
  gemv,      // CUDA cores, a vector by a matrix of 16-bit floats; an order of sums of its own
  cublaslt,  // NVIDIA's library, where it is installed; an order of sums of its own
};

struct MatmulOptions {
  MatmulPrecision precision = MatmulPrecision::automatic;
  /// The result's dtype, no narrower than the inputs' common one. Sums are not rounded on the way to it.
  std::optional<DType> out_dtype = {};
  MatmulKernel kernel = MatmulKernel::automatic;
};

/// a @ b. 1-D arrays are a row on the left and a column on the right; leading axes are batches and broadcast.
/// Inputs of other dtypes are promoted, and the result has their dtype; integers wrap around. Throws ShapeError (0-d,
/// inner dimensions, batches), DTypeError, DeviceError, and Error for tf32 with anything but float32.
Array matmul(const Array& a, const Array& b, const Array* out = nullptr, const MatmulOptions& options = {});

/// out -= a @ b for float32, float64 and complex numbers, exact: each element of out is the first term of its own sum.
/// All have one dtype and as many dimensions. No element of out may lie in a or b, though all three may be parts of one
/// array. Throws ShapeError, DTypeError.
void subtract_product(const char* op, const Array& out, const Array& a, const Array& b);

/// How that product would be computed now, in one line: the kernel, its tiles and grid, and the order of the sums.
std::string explain_matmul(const Array& a, const Array& b, const MatmulOptions& options = {});

/// matmul of two 3-D or two 4-D arrays with equal batch dimensions. Throws ShapeError otherwise.
Array batched_matmul(const Array& a, const Array& b, const Array* out = nullptr);

/// The transposed view of a 2-D array. Throws ShapeError for other ranks; permute takes those.
Array transpose(const Array& a);

}  // namespace gpukit
