// What programs of ElementwiseKernel and ReductionKernel are written with: element types with operators, arrays that
// are read by index, and the loops' places.
#pragma once
#include "gpukit/ops/common/float8.cuh"

namespace gpukit::custom {

GPUKIT_DEVICE void store_rounded(float v, half* to) { *to = to_half(v); }
GPUKIT_DEVICE void store_rounded(float v, bfloat16* to) { *to = to_bfloat16(v); }

/// A 16-bit float that computes as float. B is gpukit::half or gpukit::bfloat16.
template <typename B>
struct ShortFloat {
  B value;
  ShortFloat() = default;
  GPUKIT_DEVICE ShortFloat(float v) { store_rounded(v, &value); }
  GPUKIT_DEVICE ShortFloat(double v) { store_rounded(round_to_odd(v), &value); }
  GPUKIT_DEVICE ShortFloat(bool v) : ShortFloat(v ? 1.0f : 0.0f) {}
  GPUKIT_DEVICE ShortFloat(int v) : ShortFloat(static_cast<double>(v)) {}
  GPUKIT_DEVICE ShortFloat(unsigned v) : ShortFloat(static_cast<double>(v)) {}
  GPUKIT_DEVICE ShortFloat(long v) : ShortFloat(static_cast<double>(v)) {}
  GPUKIT_DEVICE ShortFloat(unsigned long v) : ShortFloat(static_cast<double>(v)) {}
  GPUKIT_DEVICE ShortFloat(long long v) : ShortFloat(static_cast<double>(v)) {}
  GPUKIT_DEVICE ShortFloat(unsigned long long v) : ShortFloat(static_cast<double>(v)) {}
  GPUKIT_DEVICE operator float() const { return to_float(value); }
  GPUKIT_DEVICE ShortFloat& operator+=(float v) { return *this = ShortFloat(static_cast<float>(*this) + v); }
  GPUKIT_DEVICE ShortFloat& operator-=(float v) { return *this = ShortFloat(static_cast<float>(*this) - v); }
  GPUKIT_DEVICE ShortFloat& operator*=(float v) { return *this = ShortFloat(static_cast<float>(*this) * v); }
  GPUKIT_DEVICE ShortFloat& operator/=(float v) { return *this = ShortFloat(static_cast<float>(*this) / v); }
};

GPUKIT_DEVICE float magnitude(float x) { return fabsf(x); }
GPUKIT_DEVICE double magnitude(double x) { return fabs(x); }
GPUKIT_DEVICE float length(float x, float y) { return hypotf(x, y); }
GPUKIT_DEVICE double length(double x, double y) { return hypot(x, y); }

template <typename R>
struct alignas(2 * sizeof(R)) Complex {
  R re, im;
  Complex() = default;
  GPUKIT_DEVICE Complex(R real, R imag = R(0)) : re(real), im(imag) {}
  GPUKIT_DEVICE R real() const { return re; }
  GPUKIT_DEVICE R imag() const { return im; }
  GPUKIT_DEVICE Complex operator-() const { return Complex(-re, -im); }
  friend GPUKIT_DEVICE Complex operator+(Complex a, Complex b) { return Complex(a.re + b.re, a.im + b.im); }
  friend GPUKIT_DEVICE Complex operator-(Complex a, Complex b) { return Complex(a.re - b.re, a.im - b.im); }
  friend GPUKIT_DEVICE Complex operator*(Complex a, Complex b) {
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  }
  /// Smith's method: no overflow in the denominator's square.
  friend GPUKIT_DEVICE Complex operator/(Complex a, Complex b) {
    if (magnitude(b.re) >= magnitude(b.im)) {
      if (b.re == R(0) && b.im == R(0)) return Complex(a.re / magnitude(b.re), a.im / magnitude(b.re));
      const R ratio = b.im / b.re, scale = R(1) / (b.re + b.im * ratio);
      return Complex((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale);
    }
    const R ratio = b.re / b.im, scale = R(1) / (b.im + b.re * ratio);
    return Complex((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale);
  }
  friend GPUKIT_DEVICE bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
  friend GPUKIT_DEVICE bool operator!=(Complex a, Complex b) { return !(a == b); }
  GPUKIT_DEVICE Complex& operator+=(Complex b) { return *this = *this + b; }
  GPUKIT_DEVICE Complex& operator-=(Complex b) { return *this = *this - b; }
  GPUKIT_DEVICE Complex& operator*=(Complex b) { return *this = *this * b; }
  GPUKIT_DEVICE Complex& operator/=(Complex b) { return *this = *this / b; }
  friend GPUKIT_DEVICE R real(Complex z) { return z.re; }
  friend GPUKIT_DEVICE R imag(Complex z) { return z.im; }
  friend GPUKIT_DEVICE Complex conj(Complex z) { return Complex(z.re, -z.im); }
  friend GPUKIT_DEVICE R abs(Complex z) { return length(z.re, z.im); }
};

/// Shapes and strides in elements, as the host packs them.
template <int kRank, int kOperands>
struct Loop {
  long long size;
  long long shape[kRank];
  long long strides[kOperands][kRank];
};

/// The place of one element: `_ind` of a program. kSmall: the size fits 31 bits.
template <int kRank, int kOperands, bool kSmall>
class Index {
 public:
  GPUKIT_DEVICE explicit Index(const Loop<kRank, kOperands>& loop) : loop_(loop) {}
  GPUKIT_DEVICE long long size() const { return loop_.size; }
  GPUKIT_DEVICE const long long* shape() const { return loop_.shape; }
  /// The index on each axis.
  GPUKIT_DEVICE const long long* get() const { return at_; }
  GPUKIT_DEVICE void set(long long i) {
    if constexpr (kSmall) {
      uint32_t rest = static_cast<uint32_t>(i);
#pragma unroll
      for (int axis = kRank - 1; axis > 0; --axis) {
        const uint32_t extent = static_cast<uint32_t>(loop_.shape[axis]);
        at_[axis] = rest % extent;
        rest /= extent;
      }
      at_[0] = rest;
    } else {
#pragma unroll
      for (int axis = kRank - 1; axis > 0; --axis) {
        at_[axis] = i % loop_.shape[axis];
        i /= loop_.shape[axis];
      }
      at_[0] = i;
    }
  }
  GPUKIT_DEVICE long long offset(int operand) const {
    long long sum = 0;
#pragma unroll
    for (int axis = 0; axis < kRank; ++axis) sum += at_[axis] * loop_.strides[operand][axis];
    return sum;
  }

 private:
  const Loop<kRank, kOperands>& loop_;
  long long at_[kRank];
};

/// What the host packs for a raw array.
struct RawLayout {
  long long size;
  long long shape[kKernelRank], strides[kKernelRank];
  int rank, contiguous;
};

/// A raw parameter: x[n] is the n-th element in row-major order, x[index] the one at an index on each axis.
template <typename T>
struct Raw {
  T* data;
  const RawLayout& layout;
  int ndim;
  GPUKIT_DEVICE Raw(T* data, const RawLayout& layout) : data(data), layout(layout), ndim(layout.rank) {}
  GPUKIT_DEVICE long long size() const { return layout.size; }
  GPUKIT_DEVICE const long long* shape() const { return layout.shape; }
  GPUKIT_DEVICE T& operator[](long long n) const {
    if (layout.contiguous) return data[n];
    long long at = 0;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      at += n % layout.shape[axis] * layout.strides[axis];
      n /= layout.shape[axis];
    }
    return data[at];
  }
  GPUKIT_DEVICE T& operator[](int n) const { return (*this)[static_cast<long long>(n)]; }
  GPUKIT_DEVICE T& operator[](unsigned n) const { return (*this)[static_cast<long long>(n)]; }
  GPUKIT_DEVICE T& operator[](long n) const { return (*this)[static_cast<long long>(n)]; }
  GPUKIT_DEVICE T& operator[](unsigned long n) const { return (*this)[static_cast<long long>(n)]; }
  GPUKIT_DEVICE T& operator[](unsigned long long n) const { return (*this)[static_cast<long long>(n)]; }
  GPUKIT_DEVICE T& operator[](const long long* index) const {
    long long at = 0;
    for (int axis = 0; axis < layout.rank; ++axis) at += index[axis] * layout.strides[axis];
    return data[at];
  }
};

}  // namespace gpukit::custom

using float16 = gpukit::custom::ShortFloat<gpukit::half>;
using bfloat16 = gpukit::custom::ShortFloat<gpukit::bfloat16>;
template <typename R>
using complex = gpukit::custom::Complex<R>;
