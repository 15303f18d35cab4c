#include "gpukit/ops/norm/group_norm.h"

#include <algorithm>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/norm/group_norm_impl.h"

namespace gpukit {

namespace {

void check_beside(const char* op, const char* argument, const Array& a, const Array& x, const Dims& shape) {
  if (a.device() != x.device())
    throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", x is on " + str(x.device()) +
                      "; move one with x.to(device)");
  check_dtype(op, argument, a, x.dtype());
  check_shape(op, argument, a, shape);
}

void submit(const GroupNormCall& call) {
  switch (call.x.device().kind) {
    case DeviceKind::cpu: cpu::group_norm(call); break;
    case DeviceKind::cuda: cuda::group_norm(call); break;
  }
}

/// `target` itself, or room for it where it meets a weight, or x or the residual in another layout.
Array room_for(const Array& target, const GroupNormCall& call, Temporaries& temporaries) {
  bool clash = must_buffer(target, {&call.x, call.residual.defined() ? &call.residual : nullptr});
  for (const Array* weight : {&call.gamma, &call.beta, &call.gate, &call.alpha})
    clash = clash || (weight->defined() && may_share_memory(target, *weight));
  return clash ? temporaries.empty_like(target) : target;
}

struct Activation {
  GroupNormActivation kind = GroupNormActivation::none;
  double slope = 0;  // of leaky_relu
  Array alpha = {};  // of snake
};

/// Channels of axis 1. Weights are [channels], or [batch, channels] with `plus_one`.
Array over_channels(const char* op, const Array& x, const Array& gamma, const Array& beta, int64_t groups,
                    bool plus_one, const Activation& activation, double eps, const Array* out) {
  check_floating(op, "x", x);
  if (x.ndim() < 2) throw ShapeError(op, "x", "have at least two dimensions", x.shape().str());
  const int64_t batch = x.shape()[0], channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0)
    throw ArgumentError(op, "num_groups", "divide the " + std::to_string(channels) + " channels",
                        std::to_string(groups));
  const Dims weights = plus_one ? Dims{batch, channels} : Dims{channels};
  if (gamma.defined()) check_beside(op, "gamma", gamma, x, weights);
  if (beta.defined()) check_beside(op, "beta", beta, x, weights);
  const Array& alpha = activation.alpha;
  if (alpha.defined()) check_beside(op, "alpha", alpha, x, {channels});
  const Array target = result(op, out, x.shape(), x.dtype(), x.device());
  if (target.size() == 0) return target;

  const int64_t length = x.size() / batch / channels;
  const Dims flat{batch, channels, length};
  Temporaries temporaries(op);
  GroupNormCall call{op, {}, x, gamma, beta, {}, {}, alpha, {}, eps};
  const Array to = room_for(target, call, temporaries);
  call.out = to.can_view(flat) ? to.reshape_view(flat) : temporaries.empty(flat, x.dtype(), x.device());
  call.x = (x.can_view(flat) ? x : copy(x, temporaries)).reshape_view(flat);
  const int64_t members = channels / groups;
  const bool single = length == 1;  // the group's channels are one row then
  const auto strides = [&](const Array& a) -> GroupNormStrides {
    const int64_t channel = a.strides()[1];
    return {a.strides()[0], 0, members * channel, channel, single ? channel : a.strides()[2]};
  };
  const auto weight_strides = [&](const Array& a) -> GroupNormStrides {
    if (!a.defined()) return {};
    const int64_t channel = a.strides()[a.ndim() - 1];
    return {a.ndim() == 2 ? a.strides()[0] : 0, 0, members * channel, channel, single ? channel : 0};
  };
  call.params = {batch,
                 1,
                 groups,
                 single ? 1 : members,
                 single ? members : length,
                 strides(call.out),
                 strides(call.x),
                 weight_strides(gamma),
                 weight_strides(beta),
                 {},
                 {},
                 weight_strides(alpha),
                 plus_one,
                 activation.kind,
                 activation.slope};
  submit(call);
  if (!begin_together(call.out, target)) copy_into(target, call.out.reshape_view(target.shape()));
  return target;
}

/// A group for every channel.
int64_t each_channel(const Array& x) { return x.ndim() < 2 ? 1 : std::max<int64_t>(1, x.shape()[1]); }

Array over_width(const char* op, const Array& x, const Array& scale, const Array& shift, const Array& gate,
                 const Array& residual, double eps, const Array* out) {
  check_floating(op, "x", x);
  if (x.ndim() != 2 && x.ndim() != 3) throw ShapeError(op, "x", "have 2 or 3 dimensions", x.shape().str());
  const bool flat = x.ndim() == 2;
  const int64_t tokens = x.shape(-2), width = x.shape(-1);
  const Dims weights = flat ? Dims{width} : Dims{x.shape()[0], width};
  check_beside(op, "scale", scale, x, weights);
  check_beside(op, "shift", shift, x, weights);
  if (gate.defined()) {
    check_beside(op, "gate", gate, x, weights);
    check_beside(op, "residual", residual, x, x.shape());
  }
  const Array target = result(op, out, x.shape(), x.dtype(), x.device());
  if (target.size() == 0) return target;

  Temporaries temporaries(op);
  GroupNormCall call{op, {}, x, scale, shift, gate, residual, {}, {}, eps};
  call.out = room_for(target, call, temporaries);
  const auto strides = [&](const Array& a) -> GroupNormStrides {
    if (!a.defined()) return {};
    return {flat ? 0 : a.strides()[0], a.strides()[a.ndim() - 2], 0, 0, a.strides()[a.ndim() - 1]};
  };
  const auto weight_strides = [&](const Array& a) -> GroupNormStrides {
    if (!a.defined()) return {};
    return {flat ? 0 : a.strides()[0], 0, 0, 0, a.strides()[a.ndim() - 1]};
  };
  call.params = {flat ? 1 : x.shape()[0],
                 tokens,
                 1,
                 1,
                 width,
                 strides(call.out),
                 strides(x),
                 weight_strides(scale),
                 weight_strides(shift),
                 weight_strides(gate),
                 strides(residual),
                 {},
                 true,
                 GroupNormActivation::none,
                 0};
  submit(call);
  if (!begin_together(call.out, target)) copy_into(target, call.out);
  return target;
}

}  // namespace

Array group_norm(const Array& x, const Array& gamma, const Array& beta, int64_t num_groups, double eps,
                 const Array* out) {
  return over_channels("group_norm", x, gamma, beta, num_groups, false, {}, eps, out);
}

Array group_norm_silu(const Array& x, const Array& gamma, const Array& beta, int64_t num_groups, double eps,
                      const Array* out) {
  return over_channels("group_norm_silu", x, gamma, beta, num_groups, false, {GroupNormActivation::silu}, eps, out);
}

Array instance_norm(const Array& x, const Array& gamma, const Array& beta, double eps, const Array* out) {
  return over_channels("instance_norm", x, gamma, beta, each_channel(x), false, {}, eps, out);
}

Array adain(const Array& x, const Array& gamma, const Array& beta, double eps, const Array* out) {
  return over_channels("adain", x, gamma, beta, each_channel(x), true, {}, eps, out);
}

Array adain_leaky_relu(const Array& x, const Array& gamma, const Array& beta, double slope, double eps,
                       const Array* out) {
  const Activation activation{GroupNormActivation::leaky_relu, slope};
  return over_channels("adain_leaky_relu", x, gamma, beta, each_channel(x), true, activation, eps, out);
}

Array adain_snake(const Array& x, const Array& gamma, const Array& beta, const Array& alpha, double eps,
                  const Array* out) {
  const Activation activation{GroupNormActivation::snake, 0, alpha};
  return over_channels("adain_snake", x, gamma, beta, each_channel(x), true, activation, eps, out);
}

Array adaln(const Array& x, const Array& scale, const Array& shift, double eps, const Array* out) {
  return over_width("adaln", x, scale, shift, {}, {}, eps, out);
}

Array adaln_zero(const Array& x, const Array& scale, const Array& shift, const Array& gate, const Array& residual,
                 double eps, const Array* out) {
  return over_width("adaln_zero", x, scale, shift, gate, residual, eps, out);
}

}  // namespace gpukit
