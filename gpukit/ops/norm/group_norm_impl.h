// Between group_norm.cpp and its backends: arguments are checked, nothing is empty, out may be x or residual itself.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/norm/group_norm_params.cuh"

namespace gpukit {

/// All but out and x may be undefined; gate and residual stand together, alpha is that of snake.
struct GroupNormCall {
  const char* op;
  Array out, x, gamma, beta, gate, residual, alpha;
  GroupNormParams params;
  double eps;
};

namespace cpu {
void group_norm(const GroupNormCall& call);
}  // namespace cpu
namespace cuda {
void group_norm(const GroupNormCall& call);
}  // namespace cuda

}  // namespace gpukit
