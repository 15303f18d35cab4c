// Between scaled_matmul.cpp and the two backends: everything is checked, nothing overlaps `out`.
#pragma once

#include <string>

#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/scaled_matmul.h"
#include "gpukit/ops/quantize/quantize.h"

namespace gpukit {

/// One product. Parts that are not there are not defined().
struct ScaledProduct {
  Array out;
  Quantized a, b;
  Array bias, out_scale;
  Array ids;  // int32 [m]: grouped
  ScaledProblem problem;
  MatmulKernel kernel = MatmulKernel::automatic;

  bool of_integers() const { return problem.a.code == Code::int8 || problem.a.code == Code::int4; }
};

/// scaled_matmul under the name of `op`.
Array scaled_product(const char* op, const Quantized& a, const Quantized& b, const ScaledMatmulOptions& options,
                     const Array* out);

namespace cpu {
void scaled_matmul(const ScaledProduct& product);
}
namespace cuda {
void scaled_matmul(const ScaledProduct& product);
/// Which kernel would make the product, with its file.
std::string explain_scaled_matmul(const ScaledProduct& product);
/// The same product, into a new array of `out` elements, in words.
std::string explain_grouped_matmul(const ScaledProduct& product, DType out);
}  // namespace cuda

}  // namespace gpukit
