// Orthogonal factorisations of one small or middling matrix by a team of threads (see factor.cuh): QR by Householder's
// reflections, eigenvalues and singular values by Jacobi's rotations of disjoint pairs. A matrix with an element that
// is not finite has NaN in every result, but for the zeros below R's diagonal.
#pragma once
#include "gpukit/ops/linalg/factor.cuh"

namespace gpukit::linalg {

inline constexpr int kMaxSweeps = 40;

/// The largest part of an element of a [rows, columns]; `into` has `columns` elements and is free after the call.
template <typename Team, typename W>
GPUKIT_DEVICE Real<W> largest(Team t, const W* a, int64_t rows, int64_t columns, W* into) {
  for (int64_t j = t.lane(); j < columns; j += t.lanes()) {
    Real<W> most = 0;
    for (int64_t i = 0; i < rows; ++i) most = larger_part<W>(most, a[i * columns + j]);
    into[j] = of_real<W>(most);
  }
  t.sync();
  Real<W> most = 0;
  for (int64_t j = 0; j < columns; ++j) most = larger(most, real_part(into[j]));
  t.sync();
  return most;
}
/// Power of two that brings `most` near 1 where squares could leave the range.
template <typename R>
GPUKIT_DEVICE R scale_for(R most) {
  R scale = 1;
  if (!(most > R(0))) return scale;
  while (most * scale > R(1e6)) scale = scale * R(0x1p-16);
  while (most * scale < R(1e-6) && scale < R(0x1p96)) scale = scale * R(0x1p16);
  return scale;
}
/// Scales a in place. False: it has an element that is not finite.
template <typename Team, typename W>
GPUKIT_DEVICE bool bring_in_range(Team t, W* a, int64_t rows, int64_t columns, W* into, Real<W>& scale) {
  const Real<W> most = largest(t, a, rows, columns, into);
  scale = 1;
  if (most - most != Real<W>(0)) return false;
  scale = scale_for(most);
  if (scale != Real<W>(1))
    for (int64_t i = t.lane(); i < rows * columns; i += t.lanes()) a[i] = scaled(a[i], scale);
  t.sync();
  return true;
}

/// I - factor v v^H times columns [first, columns) of b, v = (1, a[k + 1, k], ...) of a [m, n]. `row` has b's width.
template <typename Team, typename W>
GPUKIT_DEVICE void reflect(Team t, W* b, int64_t columns, int64_t first, const W* a, int64_t m, int64_t n, int64_t k,
                           W factor, W* row) {
  for (int64_t j = first + t.lane(); j < columns; j += t.lanes()) row[j] = b[k * columns + j];
  for (int64_t i = k + 1; i < m; ++i) {
    const W v = conjugate(a[i * n + k]);
    for (int64_t j = first + t.lane(); j < columns; j += t.lanes()) row[j] = row[j] + v * b[i * columns + j];
  }
  for (int64_t j = first + t.lane(); j < columns; j += t.lanes()) {
    row[j] = factor * row[j];
    b[k * columns + j] = b[k * columns + j] - row[j];
  }
  t.sync();
  for (int64_t i = k + 1 + t.row(); i < m; i += t.rows()) {
    const W v = a[i * n + k];
    for (int64_t j = first + t.col(); j < columns; j += t.cols()) b[i * columns + j] = b[i * columns + j] - v * row[j];
  }
  t.sync();
}

/// a [m, n] becomes R, with the reflections below its diagonal and their factors in tau [min(m, n)].
template <typename Team, typename W>
GPUKIT_DEVICE void triangulate(Team t, W* a, int64_t m, int64_t n, W* tau, W* row) {
  using R = Real<W>;
  const int64_t steps = m < n ? m : n;
  for (int64_t k = 0; k < steps && t.wanted(); ++k) {
    const W alpha = a[k * n + k];
    R below = 0;
    for (int64_t i = k + 1; i < m; ++i) below = below + square_of(a[i * n + k]);
    t.sync();
    if (below == R(0) && imag_part(alpha) == R(0)) {
      if (t.lane() == 0) tau[k] = of_real<W>(0);
      t.sync();
      continue;
    }
    const R norm = root(square_of(alpha) + below);
    const R beta = real_part(alpha) < R(0) ? norm : -norm;
    const W factor = scaled(of_real<W>(beta) - alpha, R(1) / beta);
    const W inverse = of_real<W>(1) / (alpha - of_real<W>(beta));
    for (int64_t i = k + 1 + t.lane(); i < m; i += t.lanes()) a[i * n + k] = a[i * n + k] * inverse;
    if (t.lane() == 0) {
      a[k * n + k] = of_real<W>(beta);
      tau[k] = factor;
    }
    t.sync();
    reflect(t, a, n, k + 1, a, m, n, k, conjugate(factor), row);
  }
}

/// q [m, columns]: the first columns of the product of triangulate's reflections.
template <typename Team, typename W>
GPUKIT_DEVICE void expand(Team t, W* q, int64_t columns, const W* a, int64_t m, int64_t n, const W* tau, W* row) {
  for (int64_t i = t.row(); i < m; i += t.rows())
    for (int64_t j = t.col(); j < columns; j += t.cols()) q[i * columns + j] = of_real<W>(i == j ? 1 : 0);
  t.sync();
  for (int64_t k = (m < n ? m : n) - 1; k >= 0 && t.wanted(); --k) reflect(t, q, columns, k, a, m, n, k, tau[k], row);
}

/// q [m, k] and r [k, n]: k is the smaller of m and n, or m.
template <typename W, typename Team, typename T>
GPUKIT_DEVICE void qr_matrix(Team t, T* q, T* r, const T* x, W* a, const FactorParams& p) {
  const int64_t m = p.m, n = p.n, k = p.k;
  W* full = a + m * n;
  W* tau = full + m * k;
  W* row = tau + n;
  for (int64_t i = t.lane(); i < m * n; i += t.lanes()) a[i] = convert<W>(x[i]);
  t.sync();
  Real<W> scale;
  if (!bring_in_range(t, a, m, n, row, scale)) {
    fill(t, q, m * k, not_a_number<T>());
    for (int64_t i = t.row(); i < k; i += t.rows())
      for (int64_t j = t.col(); j < n; j += t.cols())
        r[i * n + j] = j < i ? convert<T>(of_real<W>(0)) : not_a_number<T>();
    return;
  }
  triangulate(t, a, m, n, tau, row);
  expand(t, full, k, a, m, n, tau, row);
  const Real<W> back = Real<W>(1) / scale;
  for (int64_t i = t.lane(); i < m * k; i += t.lanes()) q[i] = convert<T>(full[i]);
  for (int64_t i = t.row(); i < k; i += t.rows())
    for (int64_t j = t.col(); j < n; j += t.cols())
      r[i * n + j] = convert<T>(j < i ? of_real<W>(0) : scaled(a[i * n + j], back));
}

/// Pair `slot` of a round: over n' - 1 rounds (n' = n rounded up to even) every two of n meet once. False: one of the
/// two has no partner.
GPUKIT_DEVICE bool meet(int64_t n, int64_t round, int64_t slot, int64_t& p, int64_t& q) {
  const int64_t ring = 2 * pairs_of(n) - 1;
  int64_t a = ring, b = round;
  if (slot != 0) {
    a = round + slot < ring ? round + slot : round + slot - ring;
    b = round >= slot ? round - slot : round + ring - slot;
  }
  p = a < b ? a : b;
  q = a < b ? b : a;
  return q < n;
}

/// Columns p and q by c p - s q' and s p + c q', q' = phase q, make [[low, off], [conj(off), high]] diagonal.
template <typename W>
GPUKIT_DEVICE void rotation(W* into, Real<W> low, Real<W> high, W off) {
  using R = Real<W>;
  const R size = modulus(off);
  const R angle = (high - low) / (R(2) * size);
  const R tangent = (angle < R(0) ? R(-1) : R(1)) / (size_of(angle) + root(angle * angle + R(1)));
  const R cosine = R(1) / root(tangent * tangent + R(1));
  into[0] = of_real<W>(cosine);
  into[1] = of_real<W>(tangent * cosine);
  into[2] = scaled(conjugate(off), R(1) / size);
}
template <typename W>
GPUKIT_DEVICE void rotate(W& p, W& q, const W* by, W phase) {
  const Real<W> c = real_part(by[0]), s = real_part(by[1]);
  const W turned = phase * q, old = p;
  p = scaled(old, c) - scaled(turned, s);
  q = scaled(old, s) + scaled(turned, c);
}
template <typename W>
GPUKIT_DEVICE void note_rotation(W* slot, bool rotates) {
  if (rotates)
    slot[3] = of_real<W>(1);
  else
    slot[1] = of_real<W>(0);
}

/// Whether any pair was rotated in a sweep; call it between barriers.
template <typename W>
GPUKIT_DEVICE bool any_rotated(const W* turns, int64_t pairs) {
  for (int64_t slot = 0; slot < pairs; ++slot)
    if (real_part(turns[4 * slot + 3]) != Real<W>(0)) return true;
  return false;
}

/// place[i]: how many of n values come before values[i], by size or by index among equals.
template <typename Team, typename W>
GPUKIT_DEVICE void rank_values(Team t, W* place, const W* values, int64_t n, bool descending) {
  for (int64_t i = t.lane(); i < n; i += t.lanes()) {
    const Real<W> mine = real_part(values[i]);
    int64_t before = 0;
    for (int64_t j = 0; j < n; ++j) {
      const Real<W> other = real_part(values[j]);
      if ((descending ? other > mine : other < mine) || (other == mine && j < i)) ++before;
    }
    place[i] = of_real<W>(static_cast<Real<W>>(before));
  }
  t.sync();
}

/// values [n] ascending and, unless null, vectors [n, n] in columns of the Hermitian x, whose lower triangle is read.
template <typename W, typename Team, typename T, typename R>
GPUKIT_DEVICE void eigh_matrix(Team t, R* values, T* vectors, const T* x, W* a, const FactorParams& p) {
  const int64_t n = p.n, pairs = pairs_of(n);
  W* v = a + n * n;
  W* found = v + n * n;
  W* place = found + n;
  W* turns = place + n;  // of each pair: cosine, sine, phase, and whether it was rotated in this sweep
  for (int64_t i = t.row(); i < n; i += t.rows())
    for (int64_t j = t.col(); j < n; j += t.cols()) {
      W value = j <= i ? convert<W>(x[i * n + j]) : conjugate(convert<W>(x[j * n + i]));
      if (i == j) value = of_real<W>(real_part(value));
      a[i * n + j] = value;
      v[i * n + j] = of_real<W>(i == j ? 1 : 0);
    }
  t.sync();
  Real<W> scale;
  if (!bring_in_range(t, a, n, n, found, scale)) {
    fill(t, values, n, not_a_number<R>());
    if (vectors != nullptr) fill(t, vectors, n * n, not_a_number<T>());
    return;
  }
  const Real<W> tolerance = largest(t, a, n, n, found) * epsilon(Real<W>(0)) * Real<W>(0.25);
  for (int sweep = 0; sweep < kMaxSweeps && n > 1; ++sweep) {
    for (int64_t slot = t.lane(); slot < pairs; slot += t.lanes()) turns[4 * slot + 3] = of_real<W>(0);
    for (int64_t round = 0; round < 2 * pairs - 1 && t.wanted(); ++round) {
      int64_t i, j;
      for (int64_t slot = t.lane(); slot < pairs; slot += t.lanes()) {
        bool rotates = meet(n, round, slot, i, j);
        if (rotates) {
          const W off = a[i * n + j];
          rotates = modulus(off) > tolerance;
          if (rotates) rotation(turns + 4 * slot, real_part(a[i * n + i]), real_part(a[j * n + j]), off);
        }
        note_rotation(turns + 4 * slot, rotates);
      }
      t.sync();
      for (int64_t line = t.row(); line < n; line += t.rows())
        for (int64_t slot = t.col(); slot < pairs; slot += t.cols()) {
          const W* by = turns + 4 * slot;
          if (real_part(by[1]) == Real<W>(0) || !meet(n, round, slot, i, j)) continue;
          rotate(a[line * n + i], a[line * n + j], by, by[2]);
          if (vectors != nullptr) rotate(v[line * n + i], v[line * n + j], by, by[2]);
        }
      t.sync();
      for (int64_t slot = t.row(); slot < pairs; slot += t.rows()) {
        const W* by = turns + 4 * slot;
        if (real_part(by[1]) == Real<W>(0) || !meet(n, round, slot, i, j)) continue;
        for (int64_t k = t.col(); k < n; k += t.cols()) {
          rotate(a[i * n + k], a[j * n + k], by, conjugate(by[2]));
          if (k == j) a[i * n + k] = of_real<W>(0);
          if (k == i) a[j * n + k] = of_real<W>(0);
          if (k == i) a[i * n + k] = of_real<W>(real_part(a[i * n + k]));
          if (k == j) a[j * n + k] = of_real<W>(real_part(a[j * n + k]));
        }
      }
      t.sync();
    }
    const bool again = any_rotated(turns, pairs);
    t.sync();
    if (!again) break;
  }
  const Real<W> back = Real<W>(1) / scale;
  for (int64_t i = t.lane(); i < n; i += t.lanes()) found[i] = of_real<W>(real_part(a[i * n + i]));
  t.sync();
  rank_values(t, place, found, n, false);
  for (int64_t j = t.lane(); j < n; j += t.lanes())
    values[static_cast<int64_t>(real_part(place[j]))] = static_cast<R>(real_part(found[j]) * back);
  if (vectors == nullptr) return;
  for (int64_t i = t.row(); i < n; i += t.rows())
    for (int64_t j = t.col(); j < n; j += t.cols())
      vectors[i * n + static_cast<int64_t>(real_part(place[j]))] = convert<T>(v[i * n + j]);
}

/// Rows of g [n, m] are made orthogonal to each other by rotations, which v [n, n] (unless null) collects in rows.
template <typename Team, typename W>
GPUKIT_DEVICE void orthogonalise(Team t, W* g, W* v, int64_t n, int64_t m, W* turns, Real<W> smallest) {
  using R = Real<W>;
  const int64_t pairs = pairs_of(n);
  const R tolerance = epsilon(R(0)) * root(static_cast<R>(m));
  for (int sweep = 0; sweep < kMaxSweeps && n > 1; ++sweep) {
    for (int64_t slot = t.lane(); slot < pairs; slot += t.lanes()) turns[4 * slot + 3] = of_real<W>(0);
    for (int64_t round = 0; round < 2 * pairs - 1 && t.wanted(); ++round) {
      int64_t i, j;
      for (int64_t slot = t.lane(); slot < pairs; slot += t.lanes()) {
        bool rotates = meet(n, round, slot, i, j);
        if (rotates) {
          R low = 0, high = 0;
          W off = of_real<W>(0);
          for (int64_t k = 0; k < m; ++k) {
            const W left = g[i * m + k], right = g[j * m + k];
            low = low + square_of(left);
            high = high + square_of(right);
            off = off + conjugate(left) * right;
          }
          rotates = low > smallest && high > smallest && modulus(off) > tolerance * (root(low) * root(high));
          if (rotates) rotation(turns + 4 * slot, low, high, off);
        }
        note_rotation(turns + 4 * slot, rotates);
      }
      t.sync();
      for (int64_t slot = t.row(); slot < pairs; slot += t.rows()) {
        const W* by = turns + 4 * slot;
        if (real_part(by[1]) == R(0) || !meet(n, round, slot, i, j)) continue;
        for (int64_t k = t.col(); k < m; k += t.cols()) rotate(g[i * m + k], g[j * m + k], by, by[2]);
        if (v != nullptr)
          for (int64_t k = t.col(); k < n; k += t.cols()) rotate(v[i * n + k], v[j * n + k], by, by[2]);
      }
      t.sync();
    }
    const bool again = any_rotated(turns, pairs);
    t.sync();
    if (!again) break;
  }
}

/// x [m, n] = u diag(values) vh with values descending, u [m, ku] and vh [kv, n]: the longer side has p.k columns, the
/// shorter one is square. u and vh are made where p.flag is set.
template <typename W, typename Team, typename T, typename R>
GPUKIT_DEVICE void svd_matrix(Team t, R* values, T* u, T* vh, const T* x, W* g, const FactorParams& p) {
  const bool wide = p.m < p.n;  // then of x^H
  const int64_t m = wide ? p.n : p.m, n = wide ? p.m : p.n, k = p.k;
  W* found = g + m * n;
  W* place = found + n;
  W* turns = place + n;
  W* v = turns + 4 * pairs_of(n);
  for (int64_t j = t.row(); j < n; j += t.rows())
    for (int64_t i = t.col(); i < m; i += t.cols())
      g[j * m + i] = wide ? conjugate(convert<W>(x[j * m + i])) : convert<W>(x[i * n + j]);
  t.sync();
  Real<W> most = 0;
  for (int64_t j = t.lane(); j < n; j += t.lanes()) {
    Real<W> size = 0;
    for (int64_t i = 0; i < m; ++i) size = larger_part<W>(size, g[j * m + i]);
    found[j] = of_real<W>(size);
  }
  t.sync();
  for (int64_t j = 0; j < n; ++j) most = larger(most, real_part(found[j]));
  t.sync();
  if (most - most != Real<W>(0)) {
    fill(t, values, n, not_a_number<R>());
    if (!p.flag) return;
    fill(t, u, p.m * (wide ? n : k), not_a_number<T>());
    fill(t, vh, p.n * (wide ? k : n), not_a_number<T>());
    return;
  }
  const Real<W> scale = scale_for(most);
  for (int64_t i = t.lane(); i < m * n; i += t.lanes()) g[i] = scaled(g[i], scale);
  if (p.flag)
    for (int64_t i = t.row(); i < n; i += t.rows())
      for (int64_t j = t.col(); j < n; j += t.cols()) v[i * n + j] = of_real<W>(i == j ? 1 : 0);
  t.sync();
  const Real<W> tiny = most * scale * epsilon(Real<W>(0)) * epsilon(Real<W>(0));
  orthogonalise(t, g, p.flag ? v : static_cast<W*>(nullptr), n, m, turns, tiny * tiny);
  const Real<W> back = Real<W>(1) / scale;
  for (int64_t j = t.lane(); j < n; j += t.lanes()) {
    Real<W> sum = 0;
    for (int64_t i = 0; i < m; ++i) sum = sum + square_of(g[j * m + i]);
    found[j] = of_real<W>(root(sum));
  }
  t.sync();
  rank_values(t, place, found, n, true);
  for (int64_t j = t.lane(); j < n; j += t.lanes())
    values[static_cast<int64_t>(real_part(place[j]))] = static_cast<R>(real_part(found[j]) * back);
  if (!p.flag) return;
  // The reflections of the sorted columns complete those of no length, and more than n of them.
  W* sorted = v + n * n;
  W* q = sorted + m * n;
  W* tau = q + m * k;
  W* row = tau + n;
  for (int64_t j = t.row(); j < n; j += t.rows()) {
    const auto to = static_cast<int64_t>(real_part(place[j]));
    for (int64_t i = t.col(); i < m; i += t.cols()) sorted[i * n + to] = g[j * m + i];
  }
  t.sync();
  triangulate(t, sorted, m, n, tau, row);
  expand(t, q, k, sorted, m, n, tau, row);
  for (int64_t i = t.row(); i < m; i += t.rows())
    for (int64_t j = t.col(); j < k; j += t.cols()) {
      const bool turned = j < n && real_part(sorted[j * n + j]) < Real<W>(0);
      const W value = turned ? -q[i * k + j] : q[i * k + j];
      if (wide)
        vh[j * m + i] = convert<T>(conjugate(value));
      else
        u[i * k + j] = convert<T>(value);
    }
  for (int64_t j = t.row(); j < n; j += t.rows()) {
    const auto to = static_cast<int64_t>(real_part(place[j]));
    for (int64_t i = t.col(); i < n; i += t.cols()) {
      if (wide)
        u[i * n + to] = convert<T>(v[j * n + i]);
      else
        vh[to * n + i] = convert<T>(conjugate(v[j * n + i]));
    }
  }
}

}  // namespace gpukit::linalg
