// Triangular factorisations of one small or middling matrix by a team of threads, for kernels and for the CPU.
//
// A team's threads stand in rows and columns: t.row() of t.rows(), t.col() of t.cols(); t.lane() of t.lanes() counts
// all of them, and t.sync() waits for all. Every sum is made by one thread in ascending order, so that no bit depends
// on the team. What has no answer is NaN in every element.
#pragma once
#include "gpukit/ops/linalg/factor_number.cuh"
#include "gpukit/ops/linalg/factor_params.cuh"

namespace gpukit::linalg {

template <typename Team, typename T>
GPUKIT_DEVICE void fill(Team t, T* out, int64_t size, T value) {
  for (int64_t i = t.lane(); i < size; i += t.lanes()) out[i] = value;
}

/// out: lower or upper (flag) triangle L, L^H of x = L L^H. The other triangle of x is not read.
template <typename W, typename Team, typename T>
GPUKIT_DEVICE void cholesky_matrix(Team t, T* out, const T* x, W* a, const FactorParams& p) {
  const int64_t n = p.n;
  for (int64_t i = t.row(); i < n; i += t.rows())
    for (int64_t j = t.col(); j <= i; j += t.cols())
      a[i * n + j] = p.flag ? conjugate(convert<W>(x[j * n + i])) : convert<W>(x[i * n + j]);
  t.sync();
  for (int64_t k = 0; k < n && t.wanted(); ++k) {
    const Real<W> pivot = real_part(a[k * n + k]);
    // NaN and infinity too.
    if (!(pivot > Real<W>(0)) || pivot - pivot != Real<W>(0)) {
      fill(t, out, n * n, not_a_number<T>());
      return;
    }
    const Real<W> diagonal = root(pivot);
    t.sync();
    if (t.lane() == 0) a[k * n + k] = of_real<W>(diagonal);
    // Row k of L^H beside column k of L, so that the update reads rows.
    for (int64_t i = k + 1 + t.lane(); i < n; i += t.lanes()) {
      const W below = scaled(a[i * n + k], Real<W>(1) / diagonal);
      a[i * n + k] = below;
      a[k * n + i] = conjugate(below);
    }
    t.sync();
    for (int64_t i = k + 1 + t.row(); i < n; i += t.rows()) {
      const W left = a[i * n + k];
      const W* above = a + k * n;
      W* line = a + i * n;
      for (int64_t j = k + 1 + t.col(); j <= i; j += t.cols()) line[j] = line[j] - left * above[j];
    }
    t.sync();
  }
  for (int64_t i = t.row(); i < n; i += t.rows())
    for (int64_t j = t.col(); j < n; j += t.cols())
      out[i * n + j] = convert<T>((p.flag ? j >= i : j <= i) ? a[i * n + j] : of_real<W>(0));
}

/// The row of the largest element of column `c` from row c on; NaN is the largest.
template <typename W>
GPUKIT_DEVICE int64_t pivot_row(const W* a, int64_t pitch, int64_t rows, int64_t c, Real<W>& most) {
  int64_t best = c;
  most = modulus(a[c * pitch + c]);
  for (int64_t i = c + 1; i < rows; ++i) {
    const Real<W> size = modulus(a[i * pitch + c]);
    if (size > most || (size != size && most == most)) {
      most = size;
      best = i;
    }
  }
  return best;
}

/// Rows of a [n, width] are exchanged and reduced until its first n columns are an upper triangle. Gives the number of
/// exchanges; `singular` when a pivot was exactly 0.
template <typename Team, typename W>
GPUKIT_DEVICE int64_t eliminate(Team t, W* a, int64_t n, int64_t width, bool& singular) {
  int64_t exchanges = 0;
  singular = false;
  for (int64_t c = 0; c < n && t.wanted(); ++c) {
    Real<W> most;
    const int64_t best = pivot_row(a, width, n, c, most);
    t.sync();
    if (best != c) {
      ++exchanges;
      for (int64_t j = c + t.lane(); j < width; j += t.lanes()) {
        const W kept = a[c * width + j];
        a[c * width + j] = a[best * width + j];
        a[best * width + j] = kept;
      }
      t.sync();
    }
    if (most == Real<W>(0)) {
      singular = true;
      continue;
    }
    const W pivot = a[c * width + c];
    const W* above = a + c * width;
    for (int64_t i = c + 1 + t.row(); i < n; i += t.rows()) {
      W* line = a + i * width;
      const W factor = line[c] / pivot;
      for (int64_t j = c + 1 + t.col(); j < width; j += t.cols()) line[j] = line[j] - factor * above[j];
    }
    t.sync();
  }
  return exchanges;
}

/// out [n, k] of x out = b; without b the inverse (k = n).
template <typename W, typename Team, typename T>
GPUKIT_DEVICE void solve_matrix(Team t, T* out, const T* x, const T* b, W* a, const FactorParams& p) {
  const int64_t n = p.n, k = p.k, width = n + k;
  for (int64_t i = t.row(); i < n; i += t.rows())
    for (int64_t j = t.col(); j < width; j += t.cols()) {
      W value = of_real<W>(j - n == i ? 1 : 0);
      if (j < n)
        value = convert<W>(x[i * n + j]);
      else if (b != nullptr)
        value = convert<W>(b[i * k + j - n]);
      a[i * width + j] = value;
    }
  t.sync();
  bool singular;
  eliminate(t, a, n, width, singular);
  if (singular) {
    fill(t, out, n * k, not_a_number<T>());
    return;
  }
  for (int64_t c = n - 1; c >= 0 && t.wanted(); --c) {
    const W pivot = a[c * width + c];
    const W* solved = a + c * width;
    for (int64_t j = n + t.lane(); j < width; j += t.lanes()) a[c * width + j] = a[c * width + j] / pivot;
    t.sync();
    for (int64_t i = t.row(); i < c; i += t.rows()) {
      W* line = a + i * width;
      const W factor = line[c];
      for (int64_t j = n + t.col(); j < width; j += t.cols()) line[j] = line[j] - factor * solved[j];
    }
    t.sync();
  }
  for (int64_t i = t.row(); i < n; i += t.rows())
    for (int64_t j = t.col(); j < k; j += t.cols()) out[i * k + j] = convert<T>(a[i * width + n + j]);
}

/// Made of the pivots of an elimination, in order.
template <typename W>
struct Determinant {
  W product = of_real<W>(1), direction = of_real<W>(1);
  Real<W> logarithm = 0;

  GPUKIT_DEVICE void turn() {
    product = -product;
    direction = -direction;
  }
  GPUKIT_DEVICE void take(W pivot) {
    const Real<W> size = modulus(pivot);
    product = product * pivot;
    logarithm = logarithm + log_of(size);
    direction = size == Real<W>(0) ? of_real<W>(0) : direction * (pivot / of_real<W>(size));
  }
  /// Any may be null. A singular matrix has sign 0 and logarithm -infinity.
  template <typename T, typename R>
  GPUKIT_DEVICE void store(T* det, T* sign, R* size) const {
    // A product may have left the range before its factor of 0.
    const bool singular = square_of(direction) == Real<W>(0);
    if (det != nullptr) *det = convert<T>(singular ? of_real<W>(0) : product);
    if (sign != nullptr) *sign = convert<T>(direction);
    if (size != nullptr) *size = static_cast<R>(logarithm);
  }
};

/// Any of det, sign and logarithm may be null.
template <typename W, typename Team, typename T, typename R>
GPUKIT_DEVICE void determinant(Team t, T* det, T* sign, R* logarithm, const T* x, W* a, const FactorParams& p) {
  const int64_t n = p.n;
  for (int64_t i = t.lane(); i < n * n; i += t.lanes()) a[i] = convert<W>(x[i]);
  t.sync();
  bool singular;
  const int64_t exchanges = eliminate(t, a, n, n, singular);
  if (t.lane() != 0) return;
  Determinant<W> made;
  if (exchanges % 2 != 0) made.turn();
  for (int64_t i = 0; i < n; ++i) made.take(a[i * n + i]);
  made.store(det, sign, logarithm);
}

}  // namespace gpukit::linalg
