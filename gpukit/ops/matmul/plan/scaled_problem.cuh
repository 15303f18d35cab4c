// Sizes, formats, scales and the order of sums of one product of quantised operands, shared by host and device.
#pragma once
#include "gpukit/ops/common/quant.cuh"

namespace gpukit {

/// Quantised values of [rows, k] and their scales. Scales of float4_e2m1 are part of the numbers, exactly. Others are
/// applied to sums: after each group of k where they vary along k, else to the whole sum.
struct ScaledOperand {
  Code code;
  int32_t has_scale;
  int64_t batch, row, k;  // strides of the quantised values in elements; a packed element is a byte
  ScaleLayout scale, zero;
  int64_t whole;  // stride of the tensor scales of matrices; 0: one number
};

/// Element (i, j) of the result: products of numbers are added to a float32 sum by fused multiply-adds, k ascending.
/// After `group` of them the sum times the scales of that group is added to the chain's, after `chain` of them the
/// chain's sum to the total, each time starting anew. The total is multiplied by ((scale of row i * scale of column j)
/// * alpha), the bias is added, the result divided by out_scale and rounded. Sums of integers are exact and have one
/// chain.
struct ScaledProblem {
  int64_t m, n, k;
  ScaledOperand a, b;
  int64_t group, chain;                // powers of two
  int64_t out_m, out_n, bias_n, id_m;  // strides
  Code out, bias;
  float alpha;
  int64_t experts;  // 0: b is one matrix; else row i takes matrix ids[i] of b
  int32_t fault_op;
};

GPUKIT_DEVICE bool scaled_along_k(const ScaledOperand& o) {
  return o.has_scale != 0 && o.scale.column != 0 && o.code != Code::float4_e2m1;
}
/// The scale of the group at k, or 1 where none varies along k.
GPUKIT_DEVICE float group_scale(const ScaledOperand& o, const void* scale, int64_t batch, int64_t row, int64_t k) {
  return scaled_along_k(o) ? static_cast<const float*>(scale)[scale_at(o.scale, batch, row, k)] : 1.0f;
}
/// The scale of a whole row.
GPUKIT_DEVICE float row_scale(const ScaledOperand& o, const void* scale, const float* tensor_scale, int64_t batch,
                              int64_t row) {
  if (o.code == Code::float4_e2m1) return tensor_scale != nullptr ? tensor_scale[batch * o.whole] : 1.0f;
  const bool here = o.has_scale != 0 && !scaled_along_k(o);
  return here ? static_cast<const float*>(scale)[scale_at(o.scale, batch, row, 0)] : 1.0f;
}

GPUKIT_DEVICE void store_number(void* out, Code code, int64_t at, float v) {
  switch (code) {
    case Code::float16: static_cast<half*>(out)[at] = to_half(v); break;
    case Code::bfloat16: static_cast<bfloat16*>(out)[at] = to_bfloat16(v); break;
    case Code::float8_e4m3: static_cast<float8_e4m3*>(out)[at] = to_float8_e4m3(v); break;
    case Code::float8_e5m2: static_cast<float8_e5m2*>(out)[at] = to_float8_e5m2(v); break;
    default: static_cast<float*>(out)[at] = v;
  }
}
GPUKIT_DEVICE float load_bias(const void* bias, Code code, int64_t at) {
  switch (code) {
    case Code::float16: return to_float(static_cast<const half*>(bias)[at]);
    case Code::bfloat16: return to_float(static_cast<const bfloat16*>(bias)[at]);
    default: return static_cast<const float*>(bias)[at];
  }
}

}  // namespace gpukit
