// What follows from factorisations, products and reductions.
#include <algorithm>
#include <cmath>

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/linalg/linalg.h"
#include "gpukit/ops/linalg/products.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::linalg {

namespace {

void check_values(const char* op, const Array& x) {
  const DType dtype = x.dtype();
  if (dtype != DType::float32 && dtype != DType::float64 && !is_complex(dtype))
    unsupported_dtype(op, "x", dtype, "have dtype float32, float64, complex64 or complex128");
}

Array magnitudes(const Array& x, Temporaries& temporaries) {
  const Array made = temporaries.empty(x.shape(), real_of(x.dtype()), x.device());
  absolute(x, &made);
  return made;
}

/// The largest singular value times rtol, with an axis of 1 behind the batch.
Array cutoff(const char* op, const Array& x, const Array& s, const Operand* rtol) {
  const Array largest = max(s, Dims{-1}, true);
  if (rtol != nullptr && rtol->is_array()) {
    check_same_device(op, x, *rtol->array);
    return multiply(largest, rtol->array->expand_dims(rtol->array->ndim()));
  }
  const double epsilon = real_of(x.dtype()) == DType::float64 ? 0x1p-52 : 0x1p-23;
  if (rtol != nullptr) return multiply(largest, Operand(rtol->scalar));
  return multiply(largest, epsilon * static_cast<double>(std::max(x.shape(-1), x.shape(-2))));
}

}  // namespace

Array matrix_rank(const Array& x, const Operand* rtol, const Array* out) {
  const Array s = svdvals(x);
  if (s.shape(-1) == 0) return sum(s, Dims{-1}, false, DType::int64, out);
  return sum(greater(s, cutoff("matrix_rank", x, s, rtol)), Dims{-1}, false, DType::int64, out);
}

Array pinv(const Array& x, const Operand* rtol, const Array* out) {
  const Svd f = svd(x, false);
  const Array left = matrix_transpose(conj(f.vh)), right = matrix_transpose(conj(f.u));
  if (f.s.shape(-1) == 0) return matmul(left, right, out);
  const Array kept = greater(f.s, cutoff("pinv", x, f.s, rtol));
  // Not 1 / s times 0: a singular value of 0 has no inverse. NaN stays.
  const Array inverse = where(kept, reciprocal(f.s), multiply(f.s, 0.0));
  return matmul(multiply(left, inverse.expand_dims(inverse.ndim() - 1)), right, out);
}

Array matrix_power(const Array& x, int64_t n, const Array* out) {
  constexpr const char* kOp = "matrix_power";
  check_values(kOp, x);
  if (x.ndim() < 2 || x.shape(-1) != x.shape(-2)) throw ShapeError(kOp, "x", "be square matrices", x.shape().str());
  const Array target = result(kOp, out, x.shape(), x.dtype(), x.device());
  Array base = n < 0 ? inv(x) : x;
  Array product;
  // The bits of |n|, from the lowest.
  for (uint64_t left = n < 0 ? uint64_t{0} - static_cast<uint64_t>(n) : static_cast<uint64_t>(n); left != 0;) {
    if (left % 2 != 0) product = product.defined() ? matmul(product, base) : base;
    left /= 2;
    if (left != 0) base = matmul(base, base);
  }
  if (!product.defined()) product = eye(x.shape(-1), {}, 0, x.dtype(), x.device()).broadcast_to(x.shape());
  if (may_share_memory(target, product)) product = copy(product);
  copy_into(target, product);
  return target;
}

MatrixNorm matrix_norm_from_name(std::string_view name) {
  if (name == "fro") return MatrixNorm::frobenius;
  if (name == "nuc") return MatrixNorm::nuclear;
  throw ArgumentError("matrix_norm", "ord", "be fro, nuc, 1, -1, 2, -2, inf or -inf", name);
}

MatrixNorm matrix_norm_from_number(double ord) {
  if (ord == 1) return MatrixNorm::one;
  if (ord == -1) return MatrixNorm::minus_one;
  if (ord == 2) return MatrixNorm::two;
  if (ord == -2) return MatrixNorm::minus_two;
  if (std::isinf(ord)) return ord > 0 ? MatrixNorm::infinity : MatrixNorm::minus_infinity;
  throw ArgumentError("matrix_norm", "ord", "be fro, nuc, 1, -1, 2, -2, inf or -inf", std::to_string(ord));
}

Array matrix_norm(const Array& x, MatrixNorm ord, bool keepdims, const Array* out) {
  constexpr const char* kOp = "matrix_norm";
  check_values(kOp, x);
  if (x.ndim() < 2) throw ShapeError(kOp, "x", "have at least 2 dimensions", x.shape().str());
  const Dims both{-2, -1};
  if (ord == MatrixNorm::frobenius) return vector_norm(x, both, keepdims, 2, out);
  Array values;
  switch (ord) {
    case MatrixNorm::one:
    case MatrixNorm::minus_one: values = vector_norm(x, Dims{-2}, true, 1); break;
    case MatrixNorm::infinity:
    case MatrixNorm::minus_infinity: values = vector_norm(x, Dims{-1}, true, 1); break;
    default: values = svdvals(x); values = values.expand_dims(values.ndim() - 1);
  }
  if (ord == MatrixNorm::nuclear) return sum(values, both, keepdims, {}, out);
  const bool least = ord == MatrixNorm::minus_one || ord == MatrixNorm::minus_two || ord == MatrixNorm::minus_infinity;
  return least ? min(values, both, keepdims, out) : max(values, both, keepdims, out);
}

Array vector_norm(const Array& x, const std::optional<Dims>& axes, bool keepdims, double ord, const Array* out) {
  constexpr const char* kOp = "vector_norm";
  check_values(kOp, x);
  if (std::isnan(ord)) throw ArgumentError(kOp, "ord", "be a number", "nan");
  Temporaries temporaries(kOp);
  const Array sizes = magnitudes(x, temporaries);
  if (std::isinf(ord)) return ord > 0 ? max(sizes, axes, keepdims, out) : min(sizes, axes, keepdims, out);
  if (ord == 0) return sum(not_equal(sizes, 0), axes, keepdims, sizes.dtype(), out);
  if (ord == 1) return sum(sizes, axes, keepdims, {}, out);
  if (ord == 2)
    square(sizes, &sizes);
  else
    power(sizes, ord, &sizes);
  const Array total = sum(sizes, axes, keepdims, {}, out);
  if (ord == 2)
    sqrt(total, &total);
  else
    power(total, 1 / ord, &total);
  return total;
}

}  // namespace gpukit::linalg
