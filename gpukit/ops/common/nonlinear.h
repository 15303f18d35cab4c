// Activations of CPU loops, for float and double.
#pragma once

#include <cmath>

namespace gpukit::cpu {

template <typename R>
R silu_of(R x) {
  return x / (R(1) + std::exp(-x));
}
/// 0.5 x (1 + tanh(u)) as x / (1 + exp(-2u)): no cancellation in the tail.
template <typename R>
R gelu_of(R x) {
  return x / (R(1) + std::exp(-(x * std::fma(x * x, R(0.07135481627260025), R(1.5957691216057308)))));
}
/// By erfc: no cancellation in the tail.
template <typename R>
R gelu_erf_of(R x) {
  return R(0.5) * x * std::erfc(x * R(-0.7071067811865475244));
}
/// x where x > 0, else slope x, in a form that compiles to no branch.
template <typename R>
R leaky_relu_of(R x, R slope) {
  const R above = x > 0 ? x : R(0), below = x > 0 ? R(0) : x;
  return above + slope * below;
}

}  // namespace gpukit::cpu
