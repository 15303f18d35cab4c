// Products of quantised matrices: activations [m, k] by weights [n, k], both with k last, the layout in which weights
// are stored. Any strides: a weight kept as [k, n] is passed as its transposed view.
//
// Formats: float8 x float8; int8 x int8 and int4 x int4, summed exactly (int32, wrapping around); float4_e2m1 x
// float4_e2m1; and float16, bfloat16 or float32 by float8, int8, int4 or float4_e2m1. Scales are as quantize makes
// them: one for the tensor, the row, or a block. The order of sums (ScaledProblem) depends on k and the formats alone:
// partial sums of 128 of k for float8 x float8; those of sum_order.cuh for plain floats by 8 bits whose scales do not
// change along k; chains of 2048 otherwise; added in ascending order. One row that dequant_gemv.cuh or
// nvfp4_gemv.cuh takes has an order of its own, except under batch_invariant.
#pragma once

#include <optional>
#include <string>

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/quantize/quantize.h"

namespace gpukit {

struct ScaledMatmulOptions {
  float alpha = 1.0f;
  Array bias = {};  // [n], float16, bfloat16 or float32
  /// float32, float16, bfloat16 or float8; int32 for integers without scales, alpha and bias. Default: out's, a's when
  /// it is float16, bfloat16 or float32, int32 where that is possible, else float32.
  std::optional<DType> out_dtype = {};
  Array out_scale = {};  // float32, one number: a float8 result holds result / out_scale
  /// automatic, wgmma or cublaslt: a choice among a GPU's kernels for float8 by float8; wgmma also for bfloat16 by
  /// float8_e4m3, by the unit for float8.
  MatmulKernel kernel = MatmulKernel::automatic;
};

/// a @ b.T * alpha + bias of the numbers of a [m, k] (or [k]) and b [n, k]: [m, n] (or [n]). Throws ShapeError,
/// DTypeError, ArgumentError, DeviceError.
Array scaled_matmul(const Quantized& a, const Quantized& b, const ScaledMatmulOptions& options = {},
                    const Array* out = nullptr);

/// Which kernel scaled_matmul of the same arguments would use now, and the file it stands in, in one line.
std::string explain_scaled_matmul(const Quantized& a, const Quantized& b, const ScaledMatmulOptions& options = {});

/// Mixtures of experts: row i of a [m, k] is multiplied by matrix row_expert_ids[i] (int32 [m]) of b [experts, n, k];
/// scales of b have the experts as their first axis, or are one number. b may also be float16, bfloat16 or float32 like
/// a: such sums have one chain, or on sm_90 those of matmul. Rows may come in any order. A row with the id -1 has no
/// expert and is 0; so is one with another id outside [0, experts), and the next wait raises OutOfRangeError.
Array grouped_matmul(const Quantized& a, const Quantized& b, const Array& row_expert_ids,
                     const ScaledMatmulOptions& options = {}, const Array* out = nullptr);

/// How grouped_matmul of the same arguments would be computed now, in one line.
std::string explain_grouped_matmul(const Quantized& a, const Quantized& b, const Array& row_expert_ids,
                                   const ScaledMatmulOptions& options = {});

}  // namespace gpukit
