// skinny_codes: products of any number of tokens by weights of 8 or 4 bits, 16 or 64 at a time, ended as scaled_matmul
// does. The order of sums is that of `skinny` with chains of 2048.
#pragma once
#include "gpukit/ops/gemv/skinny.cuh"
#include "gpukit/ops/gemv/skinny_codes_shape.cuh"
#include "gpukit/ops/matmul/scaled_matmul_space.cuh"

namespace gpukit {

/// Grid: ceil(m / kTokens) ceil(n / kSkinnyCodesRows), blocks of the same weights side by side. Block:
/// kSkinnyCodesThreads. Shared bytes: skinny_codes_shared_bytes. `s` has no experts, and scales of b that change along
/// k as in SkinnySpace, with dense rows.
template <typename W, typename X, int kTokens, int kWide, int kGroup, bool kZero, int kStages>
__global__ void __launch_bounds__(kSkinnyCodesThreads, 1)
    skinny_codes(void* out, const X* x, const void* x_scale, const W* w, const void* scale, const int8_t* zero,
                 const float* tensor_scale, const void* bias, const float* out_scale,
                 const __grid_constant__ ScaledSpace s) {
  constexpr int kWarps = kSkinnyCodesThreads / 32;
  using Shape = SkinnyShape<W, X, kTokens, kWarps, 1, kWide, kGroup>;
  static_assert(Shape::kRows == kSkinnyCodesRows && kSkinnyCodesChain % Shape::kStageK == 0);
  static_assert(kStages * Shape::kStageBytes + 4 * Shape::kSlotFloats ==
                skinny_codes_shared_bytes(kTokens, kWide, Shape::kSteps == 4, kGroup, is_e2m1<W> ? 1 : 4, kStages));
  const unsigned parts = static_cast<unsigned>((s.m + kTokens - 1) / kTokens);
  const int first = static_cast<int>(blockIdx.x % parts) * kTokens, left = static_cast<int>(s.m) - first;
  SkinnySpace space = {};
  space.n = s.n, space.k = s.k;
  space.w_stride = s.b.row, space.x_stride = s.a.row * static_cast<int64_t>(sizeof(X));
  space.scale_stride = s.b.scale.row;
  space.tokens = left < kTokens ? left : kTokens, space.chain = kSkinnyCodesChain;
  multiply_skinny<W, X, kTokens, kWarps, 1, kWide, kGroup, kZero, 1, kStages>(
      blockIdx.x / parts, w, x + first * s.a.row, scale, zero, space, [&](int at, int64_t row, float sum) {
        const int64_t token = first + at;
        sum *= row_scale(s.a, x_scale, nullptr, 0, token) * row_scale(s.b, scale, tensor_scale, 0, row) * s.alpha;
        if (bias != nullptr) sum += load_bias(bias, s.bias, row * s.bias_n);
        if (out_scale != nullptr) sum /= *out_scale;
        store_number(out, s.out, token * s.out_m + row * s.out_n, sum);
      });
}

}  // namespace gpukit
