#include "gpukit/ops/norm/norm.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

void check_device(const char* op, const char* argument, const Array& a, const Array& input) {
  if (a.device() == input.device()) return;
  throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", input is on " +
                    str(input.device()) + "; move one with x.to(device)");
}

void check_weight(const char* op, const char* argument, const Array& weight, const Array& input) {
  check_device(op, argument, weight, input);
  check_dtype(op, argument, weight, input.dtype());
  check_shape(op, argument, weight, {input.shape(-1)});
}

Array normalize(const char* op, const Array& input, const Array* gamma, const Array* beta, double eps,
                const Array* out) {
  check_floating(op, "input", input);
  if (input.ndim() == 0) throw ShapeError(op, "input", "have at least one dimension", input.shape().str());
  if (gamma != nullptr) check_weight(op, "gamma", *gamma, input);
  if (beta != nullptr) check_weight(op, "beta", *beta, input);
  const Array target = result(op, out, input.shape(), input.dtype(), input.device());
  if (target.size() == 0) return target;
  if (must_buffer(target, {&input}) || (gamma != nullptr && may_share_memory(target, *gamma)) ||
      (beta != nullptr && may_share_memory(target, *beta))) {
    Temporaries temporaries(op);
    const Array fresh = temporaries.empty_like(target);
    normalize(op, input, gamma, beta, eps, &fresh);
    copy_into(target, fresh);
    return target;
  }
  switch (input.device().kind) {
    case DeviceKind::cpu: cpu::normalize(target, input, gamma, beta, eps); break;
    case DeviceKind::cuda: cuda::normalize(target, input, gamma, beta, eps); break;
  }
  return target;
}

}  // namespace

Array layernorm(const Array& input, const Array& gamma, const Array& beta, double eps, const Array* out) {
  return normalize("layernorm", input, &gamma, &beta, eps, out);
}

Array rmsnorm(const Array& input, const Array& gamma, double eps, const Array* out) {
  return normalize("rmsnorm", input, &gamma, nullptr, eps, out);
}

Array l2norm(const Array& input, double eps, const Array* out) {
  return normalize("l2norm", input, nullptr, nullptr, eps, out);
}

void bias_add_inplace(const Array& output, const Array& bias) {
  constexpr const char* kOp = "bias_add_inplace";
  check_floating(kOp, "output", output);
  if (output.ndim() == 0) throw ShapeError(kOp, "output", "have at least one dimension", output.shape().str());
  check_device(kOp, "bias", bias, output);
  check_dtype(kOp, "bias", bias, output.dtype());
  check_shape(kOp, "bias", bias, {output.shape(-1)});
  add(output, bias, &output);
}

}  // namespace gpukit
