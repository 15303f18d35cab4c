// A number without a dtype of its own: Python int, float, bool, complex. Weak in promotion.
#pragma once

#include <complex>
#include <cstdint>

#include "gpukit/base/dtype.h"

namespace gpukit {

struct Scalar {
  ScalarKind kind = ScalarKind::integer;
  bool is_unsigned_above = false;  // an integer in [2^63, 2^64): `integer` holds its bits
  int64_t integer = 0;
  double real = 0, imag = 0;

  Scalar() = default;
  Scalar(bool v) : kind(ScalarKind::boolean), integer(v), real(v) {}
  Scalar(int v) : Scalar(int64_t{v}) {}
  Scalar(int64_t v) : kind(ScalarKind::integer), integer(v), real(static_cast<double>(v)) {}
  Scalar(double v) : kind(ScalarKind::real), integer(0), real(v) {}
  Scalar(std::complex<double> v) : kind(ScalarKind::complex), real(v.real()), imag(v.imag()) {}
  static Scalar from_unsigned(uint64_t v) {
    Scalar s;
    s.integer = static_cast<int64_t>(v);
    s.is_unsigned_above = v > INT64_MAX;
    s.real = static_cast<double>(v);
    return s;
  }
};

/// Room for one element of any dtype, aligned for it: a kernel parameter or a fill pattern.
struct alignas(16) ElementBytes {
  unsigned char bytes[16] = {};
};

/// The element of `dtype` nearest to `value`. Integers out of the dtype's range throw ArgumentError naming `op`.
ElementBytes to_element(const char* op, const Scalar& value, DType dtype);

}  // namespace gpukit
