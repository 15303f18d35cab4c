#include "gpukit/ops/recurrent/scan.h"

#include <initializer_list>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/recurrent/scan_impl.h"

namespace gpukit {

namespace {

void check_beside(const char* op, const char* argument, const Array& a, const Array& x, DType dtype,
                  const Dims& shape) {
  if (!a.defined()) return;
  if (a.device() != x.device())
    throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", x is on " + str(x.device()) +
                      "; move one with x.to(device)");
  check_dtype(op, argument, a, dtype);
  check_shape(op, argument, a, shape);
}

bool meets(const Array& a, std::initializer_list<const Array*> others) {
  for (const Array* other : others)
    if (other->defined() && may_share_memory(a, *other)) return true;
  return false;
}

/// The state is written: it must be one array that nothing else lies in.
void check_state(const char* op, const Array& state, const Array& target, std::initializer_list<const Array*> others) {
  if (!state.defined()) return;
  if (has_internal_overlap(state))
    throw ArgumentError(std::string(op) + ": state reaches some of its memory twice and cannot be written");
  if (meets(state, {&target}) || meets(state, others))
    throw ArgumentError(std::string(op) + ": state shares memory with another argument");
}

ScanStrides strides_of(const Array& a) {
  if (!a.defined()) return {};
  const Dims& s = a.strides();
  return {s[0], s[1], s[2]};
}
int64_t stride_of(const Array& a) { return a.defined() ? a.strides()[0] : 0; }

}  // namespace

Array causal_conv1d(const Array& x, const Array& weight, const CausalConvOptions& o, const Array* out) {
  constexpr const char* kOp = "causal_conv1d";
  check_floating(kOp, "x", x);
  check_ndim(kOp, "x", x, 3);
  check_ndim(kOp, "weight", weight, 2);
  const Dims& shape = x.shape();
  const int64_t taps = weight.shape()[1];
  if (taps < 1 || taps > kMostTaps)
    throw ShapeError(kOp, "weight", "have 1 to " + std::to_string(kMostTaps) + " taps", weight.shape().str());
  check_beside(kOp, "weight", weight, x, x.dtype(), {shape[1], taps});
  check_beside(kOp, "bias", o.bias, x, x.dtype(), {shape[1]});
  check_beside(kOp, "state", o.state, x, x.dtype(), {shape[0], shape[1], taps - 1});
  const Array target = result(kOp, out, shape, x.dtype(), x.device());
  if (target.size() == 0) return target;
  if (taps > 1) check_state(kOp, o.state, target, {&x, &weight, &o.bias});
  Temporaries temporaries(kOp);
  const bool apart = meets(target, {&x, &weight, &o.bias});
  CausalConvCall call{
      apart ? temporaries.empty_like(target) : target, x, weight, o.bias, taps > 1 ? o.state : Array(), {}};
  call.params = {shape[0],
                 shape[1],
                 shape[2],
                 static_cast<int32_t>(taps),
                 o.silu,
                 strides_of(call.out),
                 strides_of(x),
                 strides_of(call.state),
                 weight.strides()[0],
                 weight.strides()[1],
                 stride_of(o.bias)};
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::causal_conv1d(call); break;
    case DeviceKind::cuda: cuda::causal_conv1d(call); break;
  }
  if (apart) copy_into(target, call.out);
  return target;
}

Array selective_scan(const Array& x, const Array& delta, const Array& a, const Array& b, const Array& c,
                     const SelectiveScanOptions& o, const Array* out) {
  constexpr const char* kOp = "selective_scan";
  check_floating(kOp, "x", x);
  check_ndim(kOp, "x", x, 3);
  check_ndim(kOp, "A", a, 2);
  const Dims& shape = x.shape();
  const int64_t states = a.shape()[1];
  if (states < 1 || states > kMostStates)
    throw ShapeError(kOp, "A", "have 1 to " + std::to_string(kMostStates) + " states", a.shape().str());
  const DType sums = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
  check_beside(kOp, "delta", delta, x, x.dtype(), shape);
  check_beside(kOp, "A", a, x, sums, {shape[1], states});
  check_beside(kOp, "B", b, x, x.dtype(), {shape[0], states, shape[2]});
  check_beside(kOp, "C", c, x, x.dtype(), {shape[0], states, shape[2]});
  check_beside(kOp, "D", o.d, x, x.dtype(), {shape[1]});
  check_beside(kOp, "z", o.z, x, x.dtype(), shape);
  check_beside(kOp, "delta_bias", o.delta_bias, x, x.dtype(), {shape[1]});
  check_beside(kOp, "state", o.state, x, sums, {shape[0], shape[1], states});
  const Array target = result(kOp, out, shape, x.dtype(), x.device());
  if (target.size() == 0) return target;
  const std::initializer_list<const Array*> inputs = {&x, &delta, &a, &b, &c, &o.d, &o.z, &o.delta_bias};
  check_state(kOp, o.state, target, inputs);
  Temporaries temporaries(kOp);
  const bool apart = meets(target, inputs);
  SelectiveScanCall call{
      apart ? temporaries.empty_like(target) : target, x, delta, a, b, c, o.d, o.z, o.delta_bias, o.state, {}};
  call.params = {shape[0],         shape[1],
                 shape[2],         static_cast<int32_t>(states),
                 o.delta_softplus, strides_of(call.out),
                 strides_of(x),    strides_of(delta),
                 strides_of(o.z),  strides_of(b),
                 strides_of(c),    strides_of(o.state),
                 a.strides()[0],   a.strides()[1],
                 stride_of(o.d),   stride_of(o.delta_bias)};
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::selective_scan(call); break;
    case DeviceKind::cuda: cuda::selective_scan(call); break;
  }
  if (apart) copy_into(target, call.out);
  return target;
}

}  // namespace gpukit
