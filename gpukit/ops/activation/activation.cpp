#include "gpukit/ops/activation/activation.h"

#include "gpukit/ops/activation/activation_impl.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

void submit(ActivationOp op, const Array& out, const Array& a, const Array* b, const Array* c, double slope) {
  if (out.size() == 0) return;
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::activation(op, out, a, b, c, slope); break;
    case DeviceKind::cuda: cuda::activation(op, out, a, b, c, slope); break;
  }
}

struct Named {
  const char* name;
  const Array* array;
};

Array evaluate(const char* name, ActivationOp op, Named a, Named b, Named c, const Array* out, double slope = 0) {
  check_floating(name, a.name, *a.array);
  Dims shape = a.array->shape();
  for (const Named& x : {b, c}) {
    if (x.array == nullptr) continue;
    if (x.array->device() != a.array->device())
      throw DeviceError(std::string(name) + ": " + x.name + " is on " + str(x.array->device()) + ", " + a.name +
                        " is on " + str(a.array->device()) + "; move one with x.to(device)");
    check_dtype(name, x.name, *x.array, a.array->dtype());
    if (!(x.array->shape() == shape)) shape = broadcast_shapes(name, shape, x.array->shape());
  }
  const Array target = result(name, out, shape, a.array->dtype(), a.array->device());
  if (out != nullptr && must_buffer(target, {a.array, b.array, c.array})) {
    Temporaries temporaries(name);
    const Array buffer = temporaries.empty_like(target);
    submit(op, buffer, *a.array, b.array, c.array, slope);
    copy_into(target, buffer);
  } else {
    submit(op, target, *a.array, b.array, c.array, slope);
  }
  return target;
}

Array gated_halves(const char* name, ActivationOp op, const Array& x, const Array* out) {
  check_floating(name, "x", x);
  if (x.ndim() == 0 || x.shape(-1) % 2 != 0)
    throw ShapeError(name, "x", "have a last axis of even size", x.shape().str());
  const int last = x.ndim() - 1;
  const int64_t n = x.shape()[last] / 2;
  const Array gate = x.narrow(last, 0, n), up = x.narrow(last, n, n);
  return evaluate(name, op, {"x", &gate}, {"x", &up}, {}, out);
}

/// [batch, width] as [batch, 1, width] beside a first operand of three axes.
Array beside_tokens(const Array& first, const Array& a) {
  return first.ndim() == 3 && a.ndim() == 2 && a.shape()[0] == first.shape()[0] && a.shape()[1] == first.shape()[2]
             ? a.expand_dims(1)
             : a;
}

}  // namespace

Array swiglu(const Array& gate, const Array& up, const Array* out) {
  return evaluate("swiglu", ActivationOp::swiglu, {"gate", &gate}, {"up", &up}, {}, out);
}
Array geglu(const Array& gate, const Array& up, const Array* out) {
  return evaluate("geglu", ActivationOp::geglu, {"gate", &gate}, {"up", &up}, {}, out);
}
Array swiglu_packed(const Array& x, const Array* out) {
  return gated_halves("swiglu_packed", ActivationOp::swiglu, x, out);
}
Array geglu_packed(const Array& x, const Array* out) {
  return gated_halves("geglu_packed", ActivationOp::geglu, x, out);
}
Array gelu_erf(const Array& a, const Array* out) {
  return evaluate("gelu_erf", ActivationOp::gelu_erf, {"a", &a}, {}, {}, out);
}
Array leaky_relu(const Array& a, double slope, const Array* out) {
  return evaluate("leaky_relu", ActivationOp::leaky_relu, {"a", &a}, {}, {}, out, slope);
}
Array snake(const Array& x, const Array& alpha, const Array* out) {
  Array factor = alpha;
  if (alpha.ndim() == 1 && x.ndim() >= 2) {
    check_shape("snake", "alpha", alpha, {x.shape()[1]});
    for (int i = 2; i < x.ndim(); ++i) factor = factor.expand_dims(factor.ndim());
  }
  return evaluate("snake", ActivationOp::snake, {"x", &x}, {"alpha", &factor}, {}, out);
}
Array modulate(const Array& x, const Array& scale, const Array& shift, const Array* out) {
  const Array factor = beside_tokens(x, scale), offset = beside_tokens(x, shift);
  return evaluate("modulate", ActivationOp::modulate, {"x", &x}, {"scale", &factor}, {"shift", &offset}, out);
}
Array gated_residual(const Array& residual, const Array& gate, const Array& value, const Array* out) {
  const Array factor = beside_tokens(residual, gate);
  return evaluate("gated_residual", ActivationOp::gated_residual, {"residual", &residual}, {"gate", &factor},
                  {"value", &value}, out);
}

}  // namespace gpukit
