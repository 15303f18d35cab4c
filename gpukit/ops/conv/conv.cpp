#include "gpukit/ops/conv/conv.h"

#include <algorithm>
#include <limits>

#include "gpukit/base/env.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/conv/conv_impl.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

/// Sizes stay below this, so that no product of two overflows.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

void check_number(const char* op, const char* argument, int64_t value, int64_t least) {
  if (value < least || value > kMost)
    throw ArgumentError(op, argument, "be at least " + std::to_string(least) + " and below 2^31",
                        std::to_string(value));
}

void check_axis(const char* op, const ConvAxis& a) {
  check_number(op, "length", a.in, 0);
  check_number(op, "taps", a.taps, 1);
  check_number(op, "stride", a.stride, 1);
  check_number(op, "padding", a.padding, 0);
  check_number(op, "dilation", a.dilation, 1);
}

int64_t reach(const ConvAxis& a) { return a.dilation * (a.taps - 1) + 1; }

/// An axis whose result's size follows from the others.
ConvAxis plain_axis(const char* op, int64_t in, int64_t taps, int64_t stride, int64_t padding, int64_t dilation) {
  ConvAxis a{in, 0, taps, stride, padding, dilation};
  check_axis(op, a);
  const int64_t room = in + 2 * padding - reach(a);
  if (room < 0)
    throw ShapeError(op, "input", "reach over a kernel of " + std::to_string(reach(a)) + " with its padding",
                     std::to_string(in + 2 * padding));
  a.out = room / stride + 1;
  return a;
}

struct Options {
  const Array& bias;
  int64_t groups;
  ConvActivation activation;
  double slope;
  std::optional<bool> use_tf32;
};
template <typename Given>
Options options_of(const Given& o) {
  return {o.bias, o.groups, o.activation, o.slope, o.use_tf32};
}

struct Sizes {
  int64_t batches, in_channels, out_channels;  // of all groups
};

Sizes check_arrays(const char* op, const Array& input, const Array& weight, const Options& o, int ndim,
                   bool transposed) {
  check_floating(op, "input", input);
  check_ndim(op, "input", input, ndim);
  check_same_device(op, input, weight);
  check_dtype(op, "weight", weight, input.dtype());
  check_ndim(op, "weight", weight, ndim);
  check_number(op, "groups", o.groups, 1);
  const Dims &x = input.shape(), &w = weight.shape();
  if (x[1] % o.groups != 0) throw ShapeError(op, "input", "have a multiple of groups as channels", x.str());
  const int wanted_axis = transposed ? 0 : 1;
  const int64_t wanted = transposed ? x[1] : x[1] / o.groups;
  if (w[wanted_axis] != wanted)
    throw ShapeError(op, "weight", "have size " + std::to_string(wanted) + " on axis " + std::to_string(wanted_axis),
                     w.str());
  if (!transposed && w[0] % o.groups != 0)
    throw ShapeError(op, "weight", "have a multiple of groups on axis 0", w.str());
  if (transposed) check_number(op, "out channels of a group", w[1], 0);
  const int64_t out_channels = transposed ? w[1] * o.groups : w[0];
  if (o.bias.defined()) {
    check_same_device(op, input, o.bias);
    check_dtype(op, "bias", o.bias, input.dtype());
    check_shape(op, "bias", o.bias, {out_channels});
  }
  if (o.use_tf32.value_or(false) && input.dtype() != DType::float32)
    throw Error(std::string(op) + ": use_tf32 needs float32 inputs, got " + name(input.dtype()));
  return {x[0], x[1], out_channels};
}

/// What one of the three is asked for, checked.
struct Problem {
  const char* op;
  const Array &input, &weight;
  Options options;
  Sizes sizes;
  ConvAxis rows, columns;
  bool transposed;

  Dims shape() const {
    if (input.ndim() == 3) return {sizes.batches, sizes.out_channels, columns.out};
    return {sizes.batches, sizes.out_channels, rows.out, columns.out};
  }
};

/// `y`: strides of the result.
ConvSpace space_of(const Problem& p, const Dims& y) {
  const Dims &x = p.input.strides(), &w = p.weight.strides();
  const bool flat = p.input.ndim() == 3, transposed = p.transposed;
  const int last = p.input.ndim() - 1;
  const Options& o = p.options;
  ConvSpace s{};
  s.batches = p.sizes.batches;
  s.groups = o.groups;
  s.in_channels = p.sizes.in_channels / o.groups;
  s.out_channels = p.sizes.out_channels / o.groups;
  s.rows = p.rows;
  s.columns = p.columns;
  s.phases = transposed ? p.columns.stride : 0;
  s.x_batch = x[0];
  s.x_channel = x[1];
  s.x_row = flat ? 0 : x[2];
  s.x_column = x[last];
  s.out_batch = y[0];
  s.out_channel = y[1];
  s.out_row = flat ? 0 : y[2];
  s.out_column = y[last];
  s.w_out = transposed ? w[1] : w[0];
  s.w_in = transposed ? w[0] : w[1];
  s.w_group = transposed ? s.in_channels * w[0] : s.out_channels * w[0];
  s.w_row = flat ? 0 : w[2];
  s.w_column = w[last];
  s.bias_step = o.bias.defined() ? o.bias.strides()[0] : 0;
  s.activation = static_cast<int32_t>(o.activation);
  s.slope = o.slope;
  return s;
}

ConvCall call_of(const Problem& p, const Array& out, const Dims& out_strides) {
  const bool tf32 = p.input.dtype() == DType::float32 && p.options.use_tf32.value_or(env::allow_tf32());
  return {p.op, out, p.input, p.weight, p.options.bias, space_of(p, out_strides), tf32};
}

Array run(const Problem& p, const Array* out) {
  const Array target = result(p.op, out, p.shape(), p.input.dtype(), p.input.device());
  if (target.size() == 0) return target;
  for (const Array* a : {&p.input, &p.weight, &p.options.bias})
    if (a->defined() && may_share_memory(target, *a)) {
      Temporaries temporaries(p.op);
      const Array fresh = temporaries.empty_like(target);
      run(p, &fresh);
      copy_into(target, fresh);
      return target;
    }
  const ConvCall call = call_of(p, target, target.strides());
  switch (p.input.device().kind) {
    case DeviceKind::cpu: cpu::conv(call); break;
    case DeviceKind::cuda: cuda::conv(call); break;
  }
  return target;
}

std::string explain(const Problem& p) {
  const Dims shape = p.shape();
  const std::string text =
      std::string(name(p.input.dtype())) + " " + shape.str() + " on " + str(p.input.device()) + ": ";
  if (shape.product() == 0) return text + "nothing to compute";
  if (p.input.device().kind == DeviceKind::cpu) return text + "blocks of outputs by strips of gathered inputs";
  return text + cuda::explain_conv(call_of(p, {}, contiguous_strides(shape)));
}

constexpr ConvAxis kOneRow{1, 1, 1, 1, 0, 1};

Problem problem_of(const char* op, const Array& input, const Array& weight, const ConvOptions& o) {
  const Options options = options_of(o);
  const Sizes sizes = check_arrays(op, input, weight, options, 3, false);
  const ConvAxis columns = plain_axis(op, input.shape()[2], weight.shape()[2], o.stride, o.padding, o.dilation);
  return {op, input, weight, options, sizes, kOneRow, columns, false};
}

Problem transposed_problem_of(const char* op, const Array& input, const Array& weight, const ConvTransposeOptions& o) {
  const Options options = options_of(o);
  const Sizes sizes = check_arrays(op, input, weight, options, 3, true);
  ConvAxis columns{input.shape()[2], 0, weight.shape()[2], o.stride, o.padding, o.dilation};
  check_axis(op, columns);
  check_number(op, "output_padding", o.output_padding, 0);
  if (o.output_padding >= std::max(o.stride, o.dilation))
    throw ArgumentError(op, "output_padding", "be smaller than stride or dilation", std::to_string(o.output_padding));
  columns.out = (columns.in - 1) * o.stride - 2 * o.padding + reach(columns) + o.output_padding;
  if (columns.in == 0 || columns.out < 0)
    throw ShapeError(op, "input", "leave a result after its padding is cut off", input.shape().str());
  return {op, input, weight, options, sizes, kOneRow, columns, true};
}

Problem problem_of(const char* op, const Array& input, const Array& weight, const Conv2dOptions& o) {
  const Options options = options_of(o);
  const Sizes sizes = check_arrays(op, input, weight, options, 4, false);
  const auto axis = [&](size_t i) {
    const int at = static_cast<int>(i) + 2;
    return plain_axis(op, input.shape()[at], weight.shape()[at], o.stride[i], o.padding[i], o.dilation[i]);
  };
  return {op, input, weight, options, sizes, axis(0), axis(1), false};
}

}  // namespace

Array conv1d(const Array& input, const Array& weight, const ConvOptions& o, const Array* out) {
  return run(problem_of("conv1d", input, weight, o), out);
}
Array conv_transpose1d(const Array& input, const Array& weight, const ConvTransposeOptions& o, const Array* out) {
  return run(transposed_problem_of("conv_transpose1d", input, weight, o), out);
}
Array conv2d(const Array& input, const Array& weight, const Conv2dOptions& o, const Array* out) {
  return run(problem_of("conv2d", input, weight, o), out);
}

Array lay_out_conv_weight(const Array& weight, bool transposed) {
  constexpr int64_t kChunk = 8;  // elements of 16 bytes, where a row of channels may begin
  constexpr const char* kOp = "lay_out_conv_weight";
  if (weight.ndim() != 3 && weight.ndim() != 4)
    throw ShapeError(kOp, "weight", "have 3 or 4 dimensions", weight.shape().str());
  const int in = transposed ? 0 : 1;
  Dims room, order;
  for (int axis = 2; axis < weight.ndim(); ++axis) {
    room.push_back(weight.shape()[axis]);
    order.push_back(axis);
  }
  room.push_back(weight.shape()[1 - in]);
  room.push_back(ceil_div(weight.shape()[in], kChunk) * kChunk);
  order.push_back(1 - in);
  order.push_back(in);
  Dims back = order;  // where each axis of the weight is
  for (int place = 0; place < order.rank(); ++place) back[static_cast<int>(order[place])] = place;
  const Array held = Array::empty(room, weight.dtype(), weight.device());
  const Array laid = held.narrow(-1, 0, weight.shape()[in]).permute(back);
  copy_into(laid, weight);
  return laid;
}

std::string explain_conv1d(const Array& input, const Array& weight, const ConvOptions& o) {
  return explain(problem_of("explain_conv1d", input, weight, o));
}
std::string explain_conv_transpose1d(const Array& input, const Array& weight, const ConvTransposeOptions& o) {
  return explain(transposed_problem_of("explain_conv_transpose1d", input, weight, o));
}
std::string explain_conv2d(const Array& input, const Array& weight, const Conv2dOptions& o) {
  return explain(problem_of("explain_conv2d", input, weight, o));
}

}  // namespace gpukit
