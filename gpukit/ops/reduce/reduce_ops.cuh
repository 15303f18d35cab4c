// What each reduction merges. `load` makes an accumulator of one element, `finish` writes a result.
#pragma once
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/reduce/reduce_params.cuh"

namespace gpukit {

/// Accumulator of sums and products: float for 16-bit floats, 64 bits for integers.
template <typename T>
struct Accumulate {
  using type = int64_t;
  static constexpr bool kExact = true;
};
// clang-format off
template <> struct Accumulate<uint8_t> { using type = uint64_t; static constexpr bool kExact = true; };
template <> struct Accumulate<uint16_t> { using type = uint64_t; static constexpr bool kExact = true; };
template <> struct Accumulate<uint32_t> { using type = uint64_t; static constexpr bool kExact = true; };
template <> struct Accumulate<uint64_t> { using type = uint64_t; static constexpr bool kExact = true; };
template <> struct Accumulate<half> { using type = float; static constexpr bool kExact = false; };
template <> struct Accumulate<bfloat16> { using type = float; static constexpr bool kExact = false; };
template <> struct Accumulate<float> { using type = float; static constexpr bool kExact = false; };
template <> struct Accumulate<double> { using type = double; static constexpr bool kExact = false; };
template <> struct Accumulate<complex<float>> { using type = complex<float>; static constexpr bool kExact = false; };
template <> struct Accumulate<complex<double>> { using type = complex<double>; static constexpr bool kExact = false; };
// clang-format on
template <typename T>
using accumulate_t = typename Accumulate<T>::type;

template <typename A>
GPUKIT_DEVICE A add(A a, A b) {
  return a + b;
}
template <typename R>
GPUKIT_DEVICE complex<R> add(complex<R> a, complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename A>
GPUKIT_DEVICE A multiply(A a, A b) {
  return a * b;
}
/// Times one is no change, also of infinities and signed zeros: padding must not show.
template <typename R>
GPUKIT_DEVICE complex<R> multiply(complex<R> a, complex<R> b) {
  if (b.re == R(1) && b.im == R(0)) return a;
  if (a.re == R(1) && a.im == R(0)) return b;
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/// The number `v` as an accumulator.
template <typename A>
struct Constant {
  static GPUKIT_DEVICE A of(double v) { return static_cast<A>(v); }
};
template <typename R>
struct Constant<complex<R>> {
  static GPUKIT_DEVICE complex<R> of(double v) { return {static_cast<R>(v), static_cast<R>(v < 1 ? v : 0)}; }
};

/// Divided by a count, in double.
template <typename A>
GPUKIT_DEVICE A divide(A a, double n) {
  return static_cast<A>(static_cast<double>(a) / n);
}
template <typename R>
GPUKIT_DEVICE complex<R> divide(complex<R> a, double n) {
  return {divide(a.re, n), divide(a.im, n)};
}

template <typename T>
GPUKIT_DEVICE void store_accumulated(void* out, int64_t at, accumulate_t<T> a) {
  if constexpr (Accumulate<T>::kExact)
    static_cast<accumulate_t<T>*>(out)[at] = a;
  else
    static_cast<T*>(out)[at] = store<T>(a);
}

template <typename T>
struct Sum {
  using Element = T;
  using Acc = accumulate_t<T>;
  static constexpr bool kAnyOrder = Accumulate<T>::kExact;
  static GPUKIT_DEVICE Acc identity() { return Constant<Acc>::of(-0.0); }
  static GPUKIT_DEVICE Acc load(T x, int64_t, const ReduceParams&) { return static_cast<Acc>(gpukit::load(x)); }
  static GPUKIT_DEVICE Acc merge(Acc a, Acc b) { return add(a, b); }
  static GPUKIT_DEVICE void finish(void* out, int64_t at, Acc a, const ReduceParams& p) {
    if (!p.mean) return store_accumulated<T>(out, at, a);
    if constexpr (Accumulate<T>::kExact)
      static_cast<double*>(out)[at] = static_cast<double>(a) / static_cast<double>(p.length);
    else
      store_accumulated<T>(out, at, divide(a, static_cast<double>(p.length)));
  }
};

template <typename T>
struct Prod {
  using Element = T;
  using Acc = accumulate_t<T>;
  static constexpr bool kAnyOrder = Accumulate<T>::kExact;
  static GPUKIT_DEVICE Acc identity() { return Constant<Acc>::of(1.0); }
  static GPUKIT_DEVICE Acc load(T x, int64_t, const ReduceParams&) { return static_cast<Acc>(gpukit::load(x)); }
  static GPUKIT_DEVICE Acc merge(Acc a, Acc b) { return multiply(a, b); }
  static GPUKIT_DEVICE void finish(void* out, int64_t at, Acc a, const ReduceParams&) {
    store_accumulated<T>(out, at, a);
  }
};

/// Integers wide enough to compare, and the lowest of each type. Minima are maxima of values whose order is reversed:
/// the sign bit of floats, all bits of integers.
template <typename T>
struct Ordered {
  using type = T;
};
// clang-format off
template <> struct Ordered<bool> { using type = uint32_t; };
template <> struct Ordered<uint8_t> { using type = uint32_t; };
template <> struct Ordered<uint16_t> { using type = uint32_t; };
template <> struct Ordered<int8_t> { using type = int32_t; };
template <> struct Ordered<int16_t> { using type = int32_t; };
template <> struct Ordered<half> { using type = float; };
template <> struct Ordered<bfloat16> { using type = float; };
GPUKIT_DEVICE int32_t lowest(int32_t) { return static_cast<int32_t>(0x80000000u); }
GPUKIT_DEVICE uint32_t lowest(uint32_t) { return 0; }
GPUKIT_DEVICE int64_t lowest(int64_t) { return static_cast<int64_t>(0x8000000000000000ull); }
GPUKIT_DEVICE uint64_t lowest(uint64_t) { return 0; }
GPUKIT_DEVICE float lowest(float) { return __uint_as_float(0xff800000u); }
GPUKIT_DEVICE double lowest(double) { return __longlong_as_double(static_cast<int64_t>(0xfff0000000000000ull)); }
// clang-format on
template <typename A>
GPUKIT_DEVICE A maximum(A a, A b) {
  return a > b ? a : b;
}
template <typename A>
GPUKIT_DEVICE A reversed(A v, int32_t flip) {
  return v ^ static_cast<A>(flip ? ~A(0) : A(0));
}
GPUKIT_DEVICE float reversed(float v, int32_t flip) {
  return __uint_as_float(__float_as_uint(v) ^ (flip ? 0x80000000u : 0u));
}
GPUKIT_DEVICE double reversed(double v, int32_t flip) {
  return __longlong_as_double(__double_as_longlong(v) ^ (flip ? lowest(int64_t(0)) : 0));
}

template <typename T>
struct Max {
  using Element = T;
  using Acc = typename Ordered<T>::type;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE Acc identity() { return lowest(Acc(0)); }
  static GPUKIT_DEVICE Acc load(T x, int64_t, const ReduceParams& p) {
    return reversed(static_cast<Acc>(gpukit::load(x)), p.flip);
  }
  static GPUKIT_DEVICE Acc merge(Acc a, Acc b) { return maximum(a, b); }
  static GPUKIT_DEVICE void finish(void* out, int64_t at, Acc a, const ReduceParams& p) {
    static_cast<T*>(out)[at] = store<T>(static_cast<compute_t<T>>(reversed(a, p.flip)));
  }
};

/// A signed integer with the order of x; equal zeros are equal, NaN is handled by the caller.
template <typename T>
GPUKIT_DEVICE int32_t order_key(T x) {
  return static_cast<int32_t>(x);
}
GPUKIT_DEVICE int32_t order_key(uint32_t x) { return static_cast<int32_t>(x ^ 0x80000000u); }
GPUKIT_DEVICE int64_t order_key(int64_t x) { return x; }
GPUKIT_DEVICE int64_t order_key(uint64_t x) { return static_cast<int64_t>(x ^ 0x8000000000000000ull); }
GPUKIT_DEVICE int32_t order_key(float x) {
  int32_t bits = __float_as_int(x + 0.0f);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
GPUKIT_DEVICE int64_t order_key(double x) {
  int64_t bits = __double_as_longlong(x + 0.0);
  return bits ^ ((bits >> 63) & 0x7fffffffffffffffll);
}

template <typename K>
struct Indexed {
  K key;
  int64_t index;
};

template <typename T>
struct ArgMax {
  using Element = T;
  using Key = decltype(order_key(compute_t<T>()));
  using Acc = Indexed<Key>;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE Acc identity() { return {lowest(Key(0)), 0x7fffffffffffffffll}; }
  static GPUKIT_DEVICE Acc load(T x, int64_t index, const ReduceParams& p) {
    const compute_t<T> value = gpukit::load(x);
    Key key = order_key(value);
    if (p.flip) key = ~key;
    if (value != value) key = ~lowest(Key(0));
    return {key, index};
  }
  static GPUKIT_DEVICE Acc merge(Acc a, Acc b) {
    return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
  }
  static GPUKIT_DEVICE void finish(void* out, int64_t at, Acc a, const ReduceParams&) {
    static_cast<int64_t*>(out)[at] = a.index;
  }
};

template <typename T>
GPUKIT_DEVICE bool nonzero(T x) {
  return x != T(0);
}
/// float16 and bfloat16 alike: anything but the sign.
GPUKIT_DEVICE bool nonzero(half x) { return (x.bits & 0x7fffu) != 0; }
template <typename R>
GPUKIT_DEVICE bool nonzero(complex<R> x) {
  return x.re != R(0) || x.im != R(0);
}

/// all(x) is not any(not x).
template <typename T>
struct Any {
  using Element = T;
  using Acc = int32_t;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE Acc identity() { return 0; }
  static GPUKIT_DEVICE Acc load(T x, int64_t, const ReduceParams& p) {
    return static_cast<int32_t>(nonzero(x)) ^ p.flip;
  }
  static GPUKIT_DEVICE Acc merge(Acc a, Acc b) { return a | b; }
  static GPUKIT_DEVICE void finish(void* out, int64_t at, Acc a, const ReduceParams& p) {
    static_cast<bool*>(out)[at] = (a ^ p.flip) != 0;
  }
};

/// Count, mean and sum of squared deviations of a node.
template <typename R>
struct Moments {
  R count, mean, m2;
};

template <typename T>
struct VarReal {
  using type = double;
};
// clang-format off
template <> struct VarReal<half> { using type = float; };
template <> struct VarReal<bfloat16> { using type = float; };
template <> struct VarReal<float> { using type = float; };
// clang-format on

template <typename T>
struct Variance {
  using Element = T;
  using Real = typename VarReal<T>::type;
  using Acc = Moments<Real>;
  static constexpr bool kAnyOrder = false;
  static GPUKIT_DEVICE Acc identity() { return {0, 0, 0}; }
  static GPUKIT_DEVICE Acc load(T x, int64_t, const ReduceParams&) {
    return {1, static_cast<Real>(gpukit::load(x)), 0};
  }
  static GPUKIT_DEVICE Acc merge(Acc a, Acc b) {
    const Real d = b.mean - a.mean;
    if (a.count == b.count)
      return {a.count + b.count, (a.mean + b.mean) * Real(0.5), a.m2 + b.m2 + d * d * (a.count * Real(0.5))};
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const Real n = a.count + b.count;
    return {n, (a.count * a.mean + b.count * b.mean) / n, a.m2 + b.m2 + d * d * (a.count * b.count / n)};
  }
  static GPUKIT_DEVICE void finish(void* out, int64_t at, Acc a, const ReduceParams& p) {
    double divisor = static_cast<double>(p.length) - p.correction;
    // Of one value, which no merge has compared with another: NaN unless it is finite.
    const Real m2 = a.count == Real(1) ? a.mean - a.mean : a.m2;
    double v = static_cast<double>(m2) / (divisor > 0 ? divisor : 0.0);
    if (p.mean) v = sqrt(v);
    if constexpr (Accumulate<T>::kExact)
      static_cast<double*>(out)[at] = v;
    else
      static_cast<T*>(out)[at] = store<T>(static_cast<compute_t<T>>(v));
  }
};

}  // namespace gpukit
