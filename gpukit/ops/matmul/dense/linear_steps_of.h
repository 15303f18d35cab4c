// The steps of a layer as kernels take them.
#pragma once

#include "gpukit/ops/matmul/dense/linear_steps.cuh"
#include "gpukit/ops/matmul/linear.h"

namespace gpukit::cuda {

inline ActivationCode code_of(Activation activation) {
  switch (activation) {
    case Activation::relu: return ActivationCode::relu;
    case Activation::gelu: return ActivationCode::gelu;
    case Activation::silu: return ActivationCode::silu;
    case Activation::gelu_erf: return ActivationCode::gelu_erf;
    case Activation::none: break;
  }
  return ActivationCode::none;
}

/// `residual` is [m, n], or not defined().
inline LinearSteps steps_of(const LinearOptions& options, const Array& residual) {
  return {options.alpha, code_of(options.activation), residual.defined() ? residual.strides()[0] : 0};
}

}  // namespace gpukit::cuda
