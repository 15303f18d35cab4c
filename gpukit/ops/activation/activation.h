// Activations with a second operand or a parameter, and the gated products of feed-forward layers.
//
// Arrays have one float dtype, any strides, and broadcast; 16-bit floats are computed in float32 and rounded once.
// `out` may be an input. All throw ShapeError, DTypeError, DeviceError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// silu(gate) * up.
Array swiglu(const Array& gate, const Array& up, const Array* out = nullptr);
/// gelu(gate) * up, by the tanh approximation.
Array geglu(const Array& gate, const Array& up, const Array* out = nullptr);
/// The same of the two halves of the last axis: x is [..., 2n], the gate first; the result is [..., n].
Array swiglu_packed(const Array& x, const Array* out = nullptr);
Array geglu_packed(const Array& x, const Array* out = nullptr);
/// 0.5 a (1 + erf(a / sqrt(2))).
Array gelu_erf(const Array& a, const Array* out = nullptr);
/// a where a > 0, else slope * a. NaN stays.
Array leaky_relu(const Array& a, double slope = 0.01, const Array* out = nullptr);
/// x + sin(alpha x)^2 / alpha. alpha is [channels], of axis 1 of x [batch, channels, ...], or broadcasts to x.
Array snake(const Array& x, const Array& alpha, const Array* out = nullptr);
/// x * (1 + scale) + shift, and residual + gate * value. Second and third operands broadcast to the first; one of shape
/// [batch, width] meets a first operand [batch, tokens, width] as [batch, 1, width].
Array modulate(const Array& x, const Array& scale, const Array& shift, const Array* out = nullptr);
Array gated_residual(const Array& residual, const Array& gate, const Array& value, const Array* out = nullptr);

}  // namespace gpukit
