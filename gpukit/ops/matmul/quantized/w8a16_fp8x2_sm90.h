// bfloat16 by float8_e4m3 to 16 bits on sm_90, any number of rows: the launch of w8a16_fp8x2_sm90.cuh.
#pragma once

#include <optional>

#include "gpukit/ops/matmul/plan/kernel_call.h"
#include "gpukit/ops/matmul/plan/matmul_chip.h"
#include "gpukit/ops/matmul/quantized/w8a16_fp8x2_sm90_shape.cuh"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"

namespace gpukit::cuda {

struct Fp8x2Plan {
  int instance;  // of the table in w8a16_fp8x2_sm90.cpp
  Fp8x2Form form;
  Fp8x2Tiling tiling;  // of all rows, or of the first `step`
  int64_t step;        // rows that are taken apart at a time
  unsigned grid, shared_bytes;
  bool overlaps;
};

/// What a call takes at most for rows that are taken apart beforehand: more rows go in steps.
constexpr int64_t kMaxRoomBytes = int64_t{32} << 20;

/// nullopt where `product` is not one of these: scales do not change along k, which is a multiple of 128, 1024 at
/// least; rows are dense and lie at multiples of 16 bytes. `room`: there is memory to take more than 32 rows apart
/// once; else every block does, which is slower.
std::optional<Fp8x2Plan> plan_fp8x2(const ScaledProduct& product, const MatmulChip& chip, bool room);

/// Products that go this way where no kernel is asked for, a row alone under batch_invariant only. By k and n, so that
/// it is the same for every number of rows.
bool is_fp8x2_by_default(const ScaledProblem& problem);

KernelCall call_of(const ScaledProduct& product, const Fp8x2Plan& plan);
/// Before it, where the plan is not `form.whole`: what takes its rows apart.
KernelCall split_call_of(const ScaledProduct& product, const Fp8x2Plan& plan);
/// Where there is no memory for rows taken apart beforehand, every block does it instead.
void launch_fp8x2(const ScaledProduct& product, Fp8x2Plan plan, const MatmulChip& chip);

}  // namespace gpukit::cuda
