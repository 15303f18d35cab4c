// Integer quotients and remainders, rounded towards minus infinity, by divisions of floats: processors have no wide
// integer one. Division by zero gives 0.
#include "gpukit/ops/elementwise/arithmetic.cuh"
#include "gpukit/ops/elementwise/binary_impl.h"

namespace gpukit::cpu {

namespace {

/// Of numbers with fewer bits than half of R's: the rounded quotient is on the right side of every whole number.
template <typename R, typename T>
GPUKIT_ALWAYS_INLINE T narrow_quotient(T a, T b) {
  using Wrap = typename NumberTraits<T>::Wrap;
  using Whole = std::conditional_t<std::is_same_v<T, uint32_t>, int64_t, int32_t>;
  const bool plain = b != T(0) && (!NumberTraits<T>::kSigned || b != static_cast<T>(-1));
  const R q = std::floor(static_cast<R>(a) / static_cast<R>(plain ? b : T(1)));
  const T other = b == T(0) ? T(0) : static_cast<T>(Wrap{0} - static_cast<Wrap>(a));
  return plain ? static_cast<T>(static_cast<Whole>(q)) : other;
}

/// Two rounded quotients, of the number and of what the first leaves, then at most one up or down.
GPUKIT_ALWAYS_INLINE int64_t wide_quotient(int64_t a, int64_t b) {
  const uint64_t ua = static_cast<uint64_t>(a);
  const bool plain = b > 1 || b < -1;
  const int64_t d = plain ? b : 2;
  const uint64_t ud = static_cast<uint64_t>(d);
  const double real = static_cast<double>(d);
  uint64_t q = static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(a) / real));
  uint64_t r = ua - q * ud;
  const uint64_t more =
      static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(static_cast<int64_t>(r)) / real));
  q += more;
  r -= more * ud;
  const int64_t left = static_cast<int64_t>(r);
  const uint64_t below = left != 0 && (left < 0) != (d < 0) ? 1 : 0;
  const uint64_t above = d > 0 ? (left >= d ? 1 : 0) : (left <= d ? 1 : 0);
  q = q - below + above;
  const uint64_t other = b == 0 ? 0 : b == 1 ? ua : 0 - ua;
  return static_cast<int64_t>(plain ? q : other);
}

template <typename T>
struct QuotientOf {
  GPUKIT_ALWAYS_INLINE static T of(T a, T b) {
    if constexpr (std::is_same_v<T, int64_t>)
      return wide_quotient(a, b);
    else if constexpr (sizeof(T) == 4)
      return narrow_quotient<double>(a, b);
    else if constexpr (sizeof(T) < 4)
      return narrow_quotient<float>(a, b);
    else
      return FloorDivide::apply(a, b);
  }
};
template <typename T>
struct RemainderOf {
  GPUKIT_ALWAYS_INLINE static T of(T a, T b) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      return Remainder::apply(a, b);
    } else {
      using Wrap = typename NumberTraits<T>::Wrap;
      const T r =
          static_cast<T>(static_cast<Wrap>(a) - static_cast<Wrap>(QuotientOf<T>::of(a, b)) * static_cast<Wrap>(b));
      return b == T(0) ? T(0) : r;
    }
  }
};

template <typename T>
void run(BinaryOp op, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (op == BinaryOp::remainder)
    map_rows("remainder", out, {a, b}, wide2_row<RemainderOf<T>, T, T, T>);
  else
    map_rows("floor_divide", out, {a, b}, wide2_row<QuotientOf<T>, T, T, T>);
}

}  // namespace

void binary_division(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  switch (dtype) {
    case DType::int8: return run<int8_t>(op, out, a, b);
    case DType::int16: return run<int16_t>(op, out, a, b);
    case DType::int32: return run<int32_t>(op, out, a, b);
    case DType::int64: return run<int64_t>(op, out, a, b);
    case DType::uint8: return run<uint8_t>(op, out, a, b);
    case DType::uint16: return run<uint16_t>(op, out, a, b);
    case DType::uint32: return run<uint32_t>(op, out, a, b);
    default: return run<uint64_t>(op, out, a, b);
  }
}

}  // namespace gpukit::cpu
