#include "gpukit/ops/linalg/linalg.h"

#include <algorithm>

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/linalg/blocked.h"
#include "gpukit/ops/linalg/factor_impl.h"

namespace gpukit::linalg {

namespace {

void check_matrices(const char* op, const char* argument, const Array& x) {
  const DType dtype = x.dtype();
  if (dtype != DType::float32 && dtype != DType::float64 && !is_complex(dtype))
    unsupported_dtype(op, argument, dtype, "have dtype float32, float64, complex64 or complex128");
  if (x.ndim() < 2) throw ShapeError(op, argument, "have at least 2 dimensions", x.shape().str());
}
void check_square(const char* op, const char* argument, const Array& x) {
  check_matrices(op, argument, x);
  if (x.shape(-1) != x.shape(-2)) throw ShapeError(op, argument, "be square matrices", x.shape().str());
}

/// The leading axes.
Dims batch_of(const Array& x) {
  Dims shape;
  for (int i = 0; i + 2 < x.ndim(); ++i) shape.push_back(x.shape()[i]);
  return shape;
}
Dims with(Dims shape, std::initializer_list<int64_t> more) {
  for (int64_t size : more) shape.push_back(size);
  return shape;
}

FactorParams params_of(const Array& x) {
  FactorParams p{};
  p.batch = 1;
  for (int64_t size : batch_of(x)) p.batch *= size;
  p.m = x.shape(-2);
  p.n = x.shape(-1);
  return p;
}

/// Runs f(row-major array apart from the inputs), which ends in `out`.
template <typename F>
Array into(const char* op, const Array* out, const Dims& shape, DType dtype, std::initializer_list<const Array*> inputs,
           Temporaries& temporaries, F&& f) {
  const Array target = result(op, out, shape, dtype, (*inputs.begin())->device());
  const bool beside = !target.is_contiguous() ||
                      (out != nullptr && std::any_of(inputs.begin(), inputs.end(),
                                                     [&](const Array* x) { return may_share_memory(target, *x); }));
  const Array fresh = beside ? temporaries.empty_like(target) : target;
  f(fresh);
  if (beside) copy_into(target, fresh);
  return target;
}

// Calls the same function of the device's backend.
#define GPUKIT_ON_DEVICE(x, call)             \
  switch ((x).device().kind) {                \
    case DeviceKind::cpu: cpu::call; break;   \
    case DeviceKind::cuda: cuda::call; break; \
  }

void run_svd(const char* op, const Array& s, const Array& u, const Array& vh, const Array& x, bool full,
             Temporaries& temporaries) {
  FactorParams p = params_of(x);
  const int64_t longer = std::max(p.m, p.n), shorter = std::min(p.m, p.n);
  p.k = full ? longer : shorter;
  p.flag = u.defined() ? 1 : 0;
  p.work = svd_work(longer, shorter, p.k, u.defined());
  if (p.batch == 0) return;
  const Array values = contiguous(x, temporaries);
  if (x.size() != 0 && is_tall(p.m, p.n)) return tall_svd(op, s, u, vh, values);
  GPUKIT_ON_DEVICE(x, svd(op, s, u, vh, values, p));
}

}  // namespace

Array cholesky(const Array& x, bool upper, const Array* out) {
  check_square("cholesky", "x", x);
  Temporaries temporaries("cholesky");
  return into("cholesky", out, x.shape(), x.dtype(), {&x}, temporaries, [&](const Array& target) {
    FactorParams p = params_of(x);
    p.flag = upper ? 1 : 0;
    p.work = cholesky_work(p.n);
    if (target.size() == 0) return;
    const Array values = contiguous(x, temporaries);
    if (is_blocked(p.n)) return blocked_cholesky("cholesky", target, values, upper);
    GPUKIT_ON_DEVICE(x, cholesky(target, values, p));
  });
}

Array det(const Array& x, const Array* out) {
  check_square("det", "x", x);
  Temporaries temporaries("det");
  return into("det", out, batch_of(x), x.dtype(), {&x}, temporaries, [&](const Array& target) {
    FactorParams p = params_of(x);
    p.work = lu_work(p.n, 0);
    if (p.batch == 0) return;
    const Array values = contiguous(x, temporaries);
    if (is_blocked(p.n)) return blocked_determinants("det", target, Array(), Array(), values);
    GPUKIT_ON_DEVICE(x, determinant("det", target, Array(), Array(), values, p));
  });
}

Slogdet slogdet(const Array& x) {
  check_square("slogdet", "x", x);
  const Slogdet made{Array::empty(batch_of(x), x.dtype(), x.device()),
                     Array::empty(batch_of(x), real_of(x.dtype()), x.device())};
  FactorParams p = params_of(x);
  p.work = lu_work(p.n, 0);
  if (p.batch == 0) return made;
  Temporaries temporaries("slogdet");
  const Array values = contiguous(x, temporaries);
  if (is_blocked(p.n))
    blocked_determinants("slogdet", Array(), made.sign, made.logabsdet, values);
  else
    GPUKIT_ON_DEVICE(x, determinant("slogdet", Array(), made.sign, made.logabsdet, values, p));
  return made;
}

Array inv(const Array& x, const Array* out) {
  check_square("inv", "x", x);
  Temporaries temporaries("inv");
  return into("inv", out, x.shape(), x.dtype(), {&x}, temporaries, [&](const Array& target) {
    FactorParams p = params_of(x);
    p.k = p.n;
    p.work = lu_work(p.n, p.k);
    if (target.size() == 0) return;
    const Array values = contiguous(x, temporaries);
    if (is_blocked(p.n)) return blocked_solve("inv", target, values, Array());
    GPUKIT_ON_DEVICE(x, solve("inv", target, values, Array(), p));
  });
}

Array solve(const Array& a, const Array& b, const Array* out) {
  constexpr const char* kOp = "solve";
  check_same_device(kOp, a, b);
  check_square(kOp, "x1", a);
  const bool vector = b.ndim() == 1;
  const Array right = vector ? b.expand_dims(1) : b;
  check_matrices(kOp, "x2", right);
  if (right.shape(-2) != a.shape(-1))
    throw ShapeError(kOp, "x2", "have " + std::to_string(a.shape(-1)) + " rows", b.shape().str());
  const DType dtype = promote(kOp, a.dtype(), b.dtype());
  const int64_t n = a.shape(-1), k = right.shape(-1);
  const Dims batch = broadcast_shapes(kOp, batch_of(a), batch_of(right));
  const Dims shape = vector ? with(batch, {n}) : with(batch, {n, k});
  Temporaries temporaries(kOp);
  return into(kOp, out, shape, dtype, {&a, &b}, temporaries, [&](const Array& target) {
    if (target.size() == 0) return;
    const Array left = contiguous(astype(a, dtype, temporaries).broadcast_to(with(batch, {n, n})), temporaries);
    const Array sides = contiguous(astype(right, dtype, temporaries).broadcast_to(with(batch, {n, k})), temporaries);
    FactorParams p = params_of(left);
    p.k = k;
    p.work = lu_work(n, k);
    if (is_blocked(n)) {
      blocked_solve(kOp, vector ? target.expand_dims(target.ndim()) : target, left, sides);
      return;
    }
    GPUKIT_ON_DEVICE(a, solve(kOp, target, left, sides, p));
  });
}

Qr qr(const Array& x, bool complete) {
  check_matrices("qr", "x", x);
  FactorParams p = params_of(x);
  p.k = complete ? p.m : std::min(p.m, p.n);
  p.work = qr_work(p.m, p.n, p.k);
  const Qr made{Array::empty(with(batch_of(x), {p.m, p.k}), x.dtype(), x.device()),
                Array::empty(with(batch_of(x), {p.k, p.n}), x.dtype(), x.device())};
  if (p.batch == 0) return made;
  Temporaries temporaries("qr");
  const Array values = contiguous(x, temporaries);
  if (values.size() != 0 && is_blocked_qr(p.m, p.n))
    blocked_qr("qr", made.q, made.r, values);
  else
    GPUKIT_ON_DEVICE(x, qr(made.q, made.r, values, p));
  return made;
}

Eigh eigh(const Array& x) {
  check_square("eigh", "x", x);
  FactorParams p = params_of(x);
  p.work = eigh_work(p.n);
  const Eigh made{Array::empty(with(batch_of(x), {p.n}), real_of(x.dtype()), x.device()),
                  Array::empty(x.shape(), x.dtype(), x.device())};
  if (x.size() == 0) return made;
  Temporaries temporaries("eigh");
  const Array values = contiguous(x, temporaries);
  GPUKIT_ON_DEVICE(x, eigh("eigh", made.values, made.vectors, values, p));
  return made;
}

Array eigvalsh(const Array& x, const Array* out) {
  check_square("eigvalsh", "x", x);
  FactorParams p = params_of(x);
  p.work = eigh_work(p.n);
  Temporaries temporaries("eigvalsh");
  return into("eigvalsh", out, with(batch_of(x), {p.n}), real_of(x.dtype()), {&x}, temporaries,
              [&](const Array& target) {
                if (target.size() == 0) return;
                const Array values = contiguous(x, temporaries);
                GPUKIT_ON_DEVICE(x, eigh("eigvalsh", target, Array(), values, p));
              });
}

Svd svd(const Array& x, bool full_matrices) {
  check_matrices("svd", "x", x);
  const int64_t m = x.shape(-2), n = x.shape(-1), shorter = std::min(m, n);
  const Dims batch = batch_of(x);
  const Svd made{Array::empty(with(batch, {m, full_matrices ? m : shorter}), x.dtype(), x.device()),
                 Array::empty(with(batch, {shorter}), real_of(x.dtype()), x.device()),
                 Array::empty(with(batch, {full_matrices ? n : shorter, n}), x.dtype(), x.device())};
  Temporaries temporaries("svd");
  run_svd("svd", made.s, made.u, made.vh, x, full_matrices, temporaries);
  return made;
}

Array svdvals(const Array& x, const Array* out) {
  check_matrices("svdvals", "x", x);
  Temporaries temporaries("svdvals");
  return into("svdvals", out, with(batch_of(x), {std::min(x.shape(-1), x.shape(-2))}), real_of(x.dtype()), {&x},
              temporaries, [&](const Array& target) {
                if (target.size() != 0) run_svd("svdvals", target, Array(), Array(), x, false, temporaries);
              });
}

#undef GPUKIT_ON_DEVICE

}  // namespace gpukit::linalg
