// Which kernels there are for 16-bit tokens by weights of 8 or 4 bits: formats and instances, for plans and launches.
#pragma once

#include <iterator>

#include "gpukit/base/dtype.h"
#include "gpukit/ops/common/quant.cuh"

namespace gpukit::cuda {

/// Weights, the columns that share a scale (0: all), how many pairs of rows one row of a meets at a time in
/// dequant_gemv (0: it has another kernel), and the most rows of a that group_scaled_split_k_sm90 has registers for (0:
/// w8a16_sm90).
struct DequantForm {
  Code weights;
  int group;
  bool zero;
  int pairs, split_k_tokens;
  bool float8_row;  // one row may be float8_e4m3

  constexpr bool takes(DType dtype, int tokens) const {
    return dtype == DType::float16 || dtype == DType::bfloat16 ||
           (float8_row && tokens == 1 && dtype == DType::float8_e4m3);
  }
};
inline constexpr DequantForm kDequantForms[] = {
    {Code::float8_e4m3, 0, false, 2, 0, true},   {Code::float8_e4m3, 128, false, 2, 32, true},
    {Code::int8, 0, false, 2, 0, false},         {Code::int4, 32, false, 1, 8, false},
    {Code::int4, 32, true, 1, 8, false},         {Code::int4, 64, false, 1, 8, false},
    {Code::int4, 64, true, 1, 8, false},         {Code::int4, 128, false, 2, 8, false},
    {Code::int4, 128, true, 2, 8, false},        {Code::float4_e2m1, 16, false, 0, 32, false},
    {Code::float4_e2m1, 32, false, 0, 32, false}};

/// Pairs of rows that one row of a meets at a time in the order of several, instead of those of the form: this leaves
/// registers for more warps.
inline constexpr int kOrderedPairs = 1;

/// All kernels can have the order of sum_order.cuh, that for one row among them. group: 0 where scales do not change
/// along k.
constexpr bool has_order(int group, int64_t token_bytes) { return group == 0 && token_bytes == 2; }

/// Stages of dequant_gemm_sm80.
struct DequantRingShape {
  int wide, stages;
};
constexpr DequantRingShape ring_of(const DequantForm& f, int tokens) {
  if (tokens == 64) return {1, 3};
  return f.group == 0 ? DequantRingShape{2, 3} : DequantRingShape{1, 4};
}

/// Instances of group_scaled_split_k_sm90: blocks of a cluster, and tokens.
inline constexpr int kSplitKClusters[] = {1, 2, 4, 5};
inline constexpr int kSplitKTokens[] = {8, 16, 32};

/// Instances of w8a16_sm90: columns, chains side by side, steps that are decoded at once, warpgroups, landings,
/// the stages that each of several ways should have, and where 32 columns or more are tiles of many tokens, the time
/// that a stage takes a warpgroup, as measured on an H200, in hundredths of a microsecond.
struct W8A16Instance {
  int columns, chains, taken, warpgroups, landings, stages, stage_time;
};
/// Of several that are as good, the first is taken. Five warpgroups are for tiles of more than 128 weights.
inline constexpr W8A16Instance kW8A16Instances[] = {
    {8, 2, 4, 4, 1, 3, 0},   {8, 1, 4, 4, 1, 3, 0},    {8, 2, 4, 5, 2, 3, 0},   {16, 2, 4, 4, 1, 3, 0},
    {16, 1, 4, 4, 1, 3, 0},  {16, 2, 2, 5, 2, 3, 0},   {32, 1, 4, 4, 1, 2, 45}, {32, 2, 4, 4, 2, 2, 45},
    {64, 1, 4, 3, 2, 2, 60}, {128, 1, 4, 2, 1, 2, 105}};

}  // namespace gpukit::cuda
