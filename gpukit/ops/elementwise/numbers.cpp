#include "gpukit/ops/elementwise/numbers.h"

#include <cmath>
#include <limits>
#include <string>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/elementwise/where.h"

namespace gpukit {

namespace {

double largest(DType dtype) {
  switch (dtype) {
    case DType::float16: return 65504;
    case DType::bfloat16: return std::ldexp(255, 120);
    case DType::float32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

}  // namespace

Array round(const Array& x, int64_t decimals, const Array* out) {
  constexpr int64_t kMost = 300;  // powers of ten that double has
  if (decimals < -kMost || decimals > kMost)
    throw ArgumentError("round", "decimals", "lie between -300 and 300", std::to_string(decimals));
  if (decimals == 0 || (decimals > 0 && !is_floating(x.dtype()))) return round(x, out);
  const double power = std::pow(10.0, static_cast<double>(decimals > 0 ? decimals : -decimals));
  Temporaries temporaries("round");
  const bool real = is_floating(x.dtype());
  const Array from = real ? x : astype(x, DType::float64, temporaries);
  const Array work = temporaries.empty(x.shape(), from.dtype(), x.device());
  decimals > 0 ? multiply(from, power, &work) : divide(from, power, &work);
  round(work, &work);
  if (decimals > 0) return divide(work, power, out);
  if (real) return multiply(work, power, out);
  multiply(work, power, &work);
  return cast("round", work, x.dtype(), out);
}

Array nan_to_num(const Array& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (!is_floating(x.dtype())) {
    if (is_complex(x.dtype())) unsupported_dtype("nan_to_num", "x", x.dtype(), "have a real dtype");
    return positive(x);
  }
  const Array infinite = isinf(x);
  const Array above = where(logical_and(infinite, greater(x, 0)), posinf.value_or(largest(x.dtype())), x);
  const Array both = where(logical_and(infinite, less(x, 0)), neginf.value_or(-largest(x.dtype())), above);
  return where(isnan(x), nan, both);
}

}  // namespace gpukit
