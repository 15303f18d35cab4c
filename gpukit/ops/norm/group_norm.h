// Normalisation over groups of channels, and over tokens with weights of their own: the norms of image, speech and
// diffusion models.
//
// n = (x - mean) / sqrt(var + eps), var the mean of squared deviations. Arrays have one float dtype and any strides;
// 16-bit floats are computed in float32 and rounded once. An item does not depend on its batch. `out` may be x or
// residual. All throw ShapeError, DTypeError, DeviceError, ArgumentError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// n gamma + beta over each of `num_groups` equal groups of channels and all that follows axis 1 of x [batch, channels,
/// ...]. gamma and beta are [channels], or undefined: 1 and 0.
Array group_norm(const Array& x, const Array& gamma, const Array& beta, int64_t num_groups, double eps = 1e-5,
                 const Array* out = nullptr);
/// silu(group_norm(x)).
Array group_norm_silu(const Array& x, const Array& gamma, const Array& beta, int64_t num_groups, double eps = 1e-5,
                      const Array* out = nullptr);
/// group_norm with a group for every channel.
Array instance_norm(const Array& x, const Array& gamma = {}, const Array& beta = {}, double eps = 1e-5,
                    const Array* out = nullptr);
/// n (1 + gamma) + beta over every channel of x [batch, channels, ...]; gamma and beta are [batch, channels].
Array adain(const Array& x, const Array& gamma, const Array& beta, double eps = 1e-5, const Array* out = nullptr);

/// leaky_relu(adain(x), slope) and snake(adain(x), alpha), alpha [channels], in one pass and rounded once.
Array adain_leaky_relu(const Array& x, const Array& gamma, const Array& beta, double slope = 0.01, double eps = 1e-5,
                       const Array* out = nullptr);
Array adain_snake(const Array& x, const Array& gamma, const Array& beta, const Array& alpha, double eps = 1e-5,
                  const Array* out = nullptr);

/// n (1 + scale) + shift over the last axis of x [batch, tokens, width] or [tokens, width]; scale and shift are [batch,
/// width] or [width].
Array adaln(const Array& x, const Array& scale, const Array& shift, double eps = 1e-5, const Array* out = nullptr);
/// residual + gate (n (1 + scale) + shift); gate is like scale, residual like x.
Array adaln_zero(const Array& x, const Array& scale, const Array& shift, const Array& gate, const Array& residual,
                 double eps = 1e-5, const Array* out = nullptr);

}  // namespace gpukit
