#include "gpukit/ops/elementwise/closeness.h"

#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/elementwise/where.h"

namespace gpukit {

namespace {

/// Differences of 16-bit floats are taken in float32.
Array widened(const Array& x) {
  if (is_integer(x.dtype()) || x.dtype() == DType::boolean) return astype(x, DType::float64);
  return itemsize(x.dtype()) == 2 ? astype(x, DType::float32) : x;
}

}  // namespace

Array isclose(const Array& a, const Operand& b, double rtol, double atol, bool equal_nan) {
  check_arithmetic("isclose", "a", a);
  if (b.is_array()) check_arithmetic("isclose", "b", *b.array);
  const Array x = widened(a);
  const Array y = b.is_array() ? widened(*b.array)
                               : full({}, b.scalar, promote_scalar("isclose", x.dtype(), b.scalar.kind), x.device());
  const Array near = less_equal(absolute(subtract(x, y)), add(multiply(absolute(y), rtol), atol));
  // Infinities are near everything by the formula.
  Array close = logical_or(logical_and(near, isfinite(y)), equal(x, y));
  if (equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return close;
}

}  // namespace gpukit
