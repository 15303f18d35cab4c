// How running sums are split. Pure.
#pragma once

#include "gpukit/ops/reduce/cumsum_params.cuh"
#include "gpukit/ops/reduce/reduce_backend.h"

namespace gpukit {

struct ScanPlan {
  unsigned grid = 1;
  int64_t pyramid_bytes = 0;  // 0: one kernel walks each row from its start
  ScanParams params{};
};

ScanPlan plan_scan(const ScanLayout& layout, int accumulator_bytes);

}  // namespace gpukit
