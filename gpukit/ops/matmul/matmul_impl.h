// Between matmul.cpp and the two backends: `a` and `b` have one dtype, `out` has it too or its wide one, nothing
// overlaps.
#pragma once

#include <optional>

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit {

/// The dtype a product can be stored in straight from its sums: float32 for 16-bit floats, int32 for int8, else itself.
DType matmul_wide_dtype(DType dtype);

/// matmul under the name of `op`.
Array matmul_product(const char* op, const Array& a, const Array& b, const MatmulOptions& options, const Array* out);

/// Of two matrices, into one with these strides.
MatmulProblem matrix_problem(const Dims& out_strides, const Array& a, const Array& b);

/// Sizes and strides are the same.
bool same_product(const MatmulProblem& a, const MatmulProblem& b);

/// The product of the transposes, b^T a^T, into the transposed output.
MatmulProblem transposed(const MatmulProblem& problem);

/// The one stride that walks over all batches of an operand, given its `strides` (batch_a, batch_b or batch_out): 0 for
/// a matrix that serves all of them. nullopt: there is none.
std::optional<int64_t> one_batch_stride(const MatmulProblem& problem, const int64_t* strides);

/// Kernels with names are a GPU's: throws UnsupportedError for one on the CPU.
void check_kernel(const char* op, MatmulKernel kernel, Device device);

namespace cpu {
void matmul(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem);
/// The same within work that runs already, at these addresses: floats of `input` into that dtype or its wide one.
void multiply_floats(DType input, DType result, const MatmulProblem& problem, void* out, const void* a, const void* b);

/// Instructions the CPU product uses: the best the processor has. The bits of the result do not depend on it.
enum class MatmulLevel : uint8_t { plain, avx2, avx512 };
MatmulLevel best_matmul_level();
/// For tests: products submitted from now on use at most this level.
void set_matmul_level(MatmulLevel level);
/// For tests: while true, products get no memory to work in beyond their threads' stacks.
void set_matmul_low_memory(bool low);
}  // namespace cpu
namespace cuda {
/// Throws UnsupportedError when the kernel asked for cannot serve.
void matmul(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem,
            const MatmulOptions& options);
/// The same product into a new array of `out` elements, in words.
std::string explain_matmul(const Array& a, const Array& b, DType out, const MatmulProblem& problem,
                           const MatmulOptions& options);
}  // namespace cuda

}  // namespace gpukit
