// Between activation.cpp and its backends: inputs are checked, of out's dtype, and broadcast to it.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

enum class ActivationOp : int32_t { gelu_erf, leaky_relu, swiglu, geglu, snake, modulate, gated_residual };

namespace cpu {
/// Null inputs are not used by the function. `slope` is leaky_relu's.
void activation(ActivationOp op, const Array& out, const Array& a, const Array* b, const Array* c, double slope);
}  // namespace cpu
namespace cuda {
void activation(ActivationOp op, const Array& out, const Array& a, const Array* b, const Array* c, double slope);
}  // namespace cuda

}  // namespace gpukit
