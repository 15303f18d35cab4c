// Sizes and element strides of group norms, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct GroupNormStrides {
  int64_t outer, inner, group, channel, step;
};

/// What follows a norm.
enum class GroupNormActivation : int32_t { none, silu, leaky_relu, snake };

/// One norm for each of outer x inner x groups, over channels x length elements.
struct GroupNormParams {
  int64_t outer, inner, groups, channels, length;
  GroupNormStrides out, x, gamma, beta, gate, residual, alpha;
  bool plus_one;  // weights are 1 + gamma
  GroupNormActivation activation;
  double slope;  // of leaky_relu
};

GPUKIT_DEVICE int64_t group_offset(const GroupNormStrides& s, const GroupNormParams& p, int64_t norm) {
  const int64_t rest = norm / p.groups;
  return rest / p.inner * s.outer + rest % p.inner * s.inner + norm % p.groups * s.group;
}

}  // namespace gpukit
