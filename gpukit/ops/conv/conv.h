// Convolution as networks mean it: cross-correlation over batches of channels, zeros beyond the ends.
//
// input is [batch, channels, length] (conv2d: [batch, channels, height, width]) with any strides; input, weight and
// bias have one float dtype. Sums start at 0 and take one fused multiply-add for each weight, input channels outermost,
// in float32 (float64 for float64); bias and activation follow before the one rounding. So a result depends on its own
// item of the batch alone. All throw ShapeError, DTypeError, DeviceError, ArgumentError.
//
// On a GPU float16 and bfloat16 go through tensor cores, and float32 where TF32 is allowed: the order of their sums is
// in docs/determinism.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "gpukit/array/array.h"

namespace gpukit {

/// gelu is the tanh form, gelu_erf the exact one.
enum class ConvActivation : int32_t { none, relu, gelu, gelu_erf, silu, leaky_relu };

struct ConvOptions {
  Array bias = {};  // [out channels]
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  ConvActivation activation = ConvActivation::none;
  double slope = 0.01;  // of leaky_relu
  /// float32 may be rounded to TF32; none: what PYGPUKIT_ALLOW_TF32 says. The CPU computes exactly all the same.
  std::optional<bool> use_tf32 = {};
};
struct ConvTransposeOptions : ConvOptions {
  int64_t output_padding = 0;  // steps more at the end of the result
};
struct Conv2dOptions {
  Array bias = {};
  std::array<int64_t, 2> stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  ConvActivation activation = ConvActivation::none;
  double slope = 0.01;
  std::optional<bool> use_tf32 = {};
};

/// weight is [out channels, in channels / groups, taps]; the result's length is
/// (length + 2 padding - dilation (taps - 1) - 1) / stride + 1.
Array conv1d(const Array& input, const Array& weight, const ConvOptions& options = {}, const Array* out = nullptr);
/// The transpose of conv1d: out[o, a stride - padding + j dilation] += input[c, a] weight[c, o, j]. weight is
/// [in channels, out channels / groups, taps]; the result's length is
/// (length - 1) stride - 2 padding + dilation (taps - 1) + output_padding + 1.
Array conv_transpose1d(const Array& input, const Array& weight, const ConvTransposeOptions& options = {},
                       const Array* out = nullptr);
/// weight is [out channels, in channels / groups, tap rows, tap columns].
Array conv2d(const Array& input, const Array& weight, const Conv2dOptions& options = {}, const Array* out = nullptr);

/// The same weight where the tensor cores read it as it lies: input channels side by side, taps outermost. Calls of
/// float16 and bfloat16 pack any other one first, each time. `transposed`: of conv_transpose1d.
Array lay_out_conv_weight(const Array& weight, bool transposed = false);

/// The kernel that each would use now, its tiles and grid, in words; for a dense result.
std::string explain_conv1d(const Array& input, const Array& weight, const ConvOptions& options = {});
std::string explain_conv_transpose1d(const Array& input, const Array& weight, const ConvTransposeOptions& options = {});
std::string explain_conv2d(const Array& input, const Array& weight, const Conv2dOptions& options = {});

}  // namespace gpukit
