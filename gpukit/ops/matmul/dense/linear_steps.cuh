// What follows the sum of a layer's product, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// As Activation of linear.h.
enum class ActivationCode : int32_t { none, relu, gelu, silu, gelu_erf };

/// activation(alpha * sum + bias) + residual, each step rounded to float32. What an array is missing for is left out.
struct LinearSteps {
  float alpha;
  ActivationCode activation;
  int64_t residual_m;  // elements from one row of the residual to the next
};

/// The second pass of a layer whose product stands in float32: sums are dense [m, n], the others rows of dense columns.
struct LinearEnd {
  int64_t m, n, out_m;
};

}  // namespace gpukit
