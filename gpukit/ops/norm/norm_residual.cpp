#include "gpukit/ops/norm/norm_residual.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

bool is_rows(const Array& a, const Dims& rows) {
  if (!a.can_view(rows)) return false;
  return rows[1] == 1 || a.reshape_view(rows).strides()[1] == 1;
}

Array normalize(const char* op, const Array& x, const Array& residual, const Array& gamma, const Array* beta,
                double eps, const Array* out, const Array* sum) {
  check_floating(op, "x", x);
  if (x.ndim() == 0) throw ShapeError(op, "x", "have at least one dimension", x.shape().str());
  auto check = [&](const char* argument, const Array& a, const Dims& shape) {
    if (a.device() != x.device())
      throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", x is on " +
                        str(x.device()) + "; move one with x.to(device)");
    check_dtype(op, argument, a, x.dtype());
    check_shape(op, argument, a, shape);
  };
  check("residual", residual, x.shape());
  check("gamma", gamma, {x.shape(-1)});
  if (beta != nullptr) check("beta", *beta, {x.shape(-1)});
  if (sum != nullptr) {
    check("sum", *sum, x.shape());
    if (has_internal_overlap(*sum))
      throw ArgumentError(std::string(op) + ": sum reaches some of its memory twice and cannot be written");
  }
  const Array target = result(op, out, x.shape(), x.dtype(), x.device());
  if (sum != nullptr && target.size() > 0 && may_share_memory(target, *sum))
    throw ArgumentError(std::string(op) + ": out and sum share memory");
  if (target.size() == 0) return target;

  const int64_t width = x.shape(-1);
  const Dims shape{x.size() / width, width};
  Temporaries temporaries(op);
  auto rows = [&](const Array& a) {
    return is_rows(a, shape) ? a.reshape_view(shape) : copy(a, temporaries).reshape_view(shape);
  };
  auto weight = [&](const Array& a) {
    const bool written = may_share_memory(a, target) || (sum != nullptr && may_share_memory(a, *sum));
    return written || !a.is_contiguous() ? copy(a, temporaries) : a;
  };
  auto written = [&](const Array& a) {
    return is_rows(a, shape) && !must_buffer(a, {&x, &residual}) ? a.reshape_view(shape)
                                                                 : temporaries.empty(shape, a.dtype(), a.device());
  };
  ResidualRows r;
  r.x = rows(x);
  r.residual = rows(residual);
  r.gamma = weight(gamma);
  if (beta != nullptr) r.beta = weight(*beta);
  r.out = written(target);
  if (sum != nullptr) r.sum = written(*sum);
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::norm_residual(r, eps); break;
    case DeviceKind::cuda: cuda::norm_residual(r, eps); break;
  }
  auto give = [&](const Array& to, const Array& from) {
    if (!begin_together(to, from)) copy_into(to, from.reshape_view(to.shape()));
  };
  give(target, r.out);
  if (sum != nullptr) give(*sum, r.sum);
  return target;
}

}  // namespace

Array rmsnorm_residual(const Array& x, const Array& residual, const Array& gamma, double eps, const Array* out,
                       const Array* sum) {
  return normalize("rmsnorm_residual", x, residual, gamma, nullptr, eps, out, sum);
}

Array layernorm_residual(const Array& x, const Array& residual, const Array& gamma, const Array& beta, double eps,
                         const Array* out, const Array* sum) {
  return normalize("layernorm_residual", x, residual, gamma, &beta, eps, out, sum);
}

}  // namespace gpukit
