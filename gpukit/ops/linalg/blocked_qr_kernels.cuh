// The steps of a blocked QR factorisation by Householder's reflections I - V T V^H: the inverse of T is the upper
// triangle of V^H V beside 1 / tau on its diagonal, so that T is applied by solving.
#pragma once
#include "gpukit/ops/linalg/blocked_kernels.cuh"
#include "gpukit/ops/linalg/orthogonal.cuh"

namespace gpukit::linalg {

/// The largest part of an element in each of kRangeParts parts of a matrix; one block a part.
template <typename T>
__global__ void __launch_bounds__(256) range_parts(Real<typename Computed<T>::type>* parts, const T* x, StepParams p) {
  using W = typename Computed<T>::type;
  __shared__ Real<W> warps[8];
  const int64_t batch = blockIdx.x / kRangeParts, part = blockIdx.x % kRangeParts;
  const W* const matrix = piece(x, batch * p.b.batch);
  Real<W> most = 0;
  for (int64_t e = part * 256 + threadIdx.x; e < p.rows * p.columns; e += kRangeParts * 256)
    most = larger_part<W>(most, matrix[e / p.columns * p.b.row + e % p.columns * p.b.column]);
  for (int mask = 16; mask > 0; mask /= 2) most = larger(most, shuffle_xor(most, mask));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < 8; ++i) most = larger(most, warps[i]);
  if (threadIdx.x == 0) parts[blockIdx.x] = most;
}
/// What bounds the elements of a matrix, kept for its next element.
template <typename R>
struct Range {
  const R* parts;
  int64_t batch = -1;
  R most = 0;

  GPUKIT_DEVICE explicit Range(const R* parts) : parts(parts) {}
  GPUKIT_DEVICE R of(int64_t wanted) {
    if (wanted == batch) return most;
    batch = wanted;
    most = 0;
    for (int i = 0; i < kRangeParts; ++i) most = larger(most, parts[batch * kRangeParts + i]);
    return most;
  }
};

/// a [rows, columns] = x, brought in range, with rows of 0 below x's p.flag rows.
template <typename T>
__global__ void __launch_bounds__(256)
    qr_load(T* a, const T* x, const Real<typename Computed<T>::type>* parts, StepParams p) {
  using W = typename Computed<T>::type;
  Range<Real<W>> range(parts);
  each_element(p, [&](int64_t batch, int64_t i, int64_t j) {
    W value = of_real<W>(0);
    if (i < p.flag)
      value = scaled(piece(x, batch * p.b.batch)[i * p.b.row + j * p.b.column], scale_for(range.of(batch)));
    piece(a, batch * p.a.batch)[i * p.a.row + j] = value;
  });
}

/// One block reflects one panel: R in its upper triangle, the vectors without their leading 1 below, factors in tau.
/// p.columns are at most 32. A warp has one column and every so many rows; its lanes and then the warps of a column are
/// added in a fixed order.
template <typename T>
__global__ void __launch_bounds__(kPanelThreads, 1) qr_panel(T* panel, T* tau, StepParams p) {
  using W = typename Computed<T>::type;
  using R = Real<W>;
  constexpr int kWarps = kPanelThreads / 32;
  __shared__ W parts[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int columns = static_cast<int>(p.columns), slices = kWarps / columns, j = warp % columns,
            slice = warp / columns;
  const int64_t begin = slice * 32 + lane, step = slices * 32;
  const bool works = slice < slices;
  W* const from = piece(panel, blockIdx.x * p.a.batch);
  W* const factors = piece(tau, blockIdx.x * p.vector);
  W* a = from;
  int64_t pitch = p.a.row;
  if (p.in_shared) {
    a = reinterpret_cast<W*>(factor_shared);
    pitch = columns | 1;  // rows side by side lie in different banks
    copy_panel(a, pitch, from, p.a.row, p);
    __syncthreads();
  }
  for (int c = 0; c < columns; ++c) {
    W sum = of_real<W>(0);
    if (works && j >= c)
      for (int64_t i = c + 1 + begin; i < p.rows; i += step)
        sum = minus_product(sum, -conjugate(a[i * pitch + c]), a[i * pitch + j]);
    for (int mask = 16; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
    if (lane == 0) parts[warp] = sum;
    __syncthreads();
    R below = 0;
    W product = of_real<W>(0);
    for (int s = 0; s < slices; ++s) {
      below = below + real_part(parts[s * columns + c]);
      product = product + parts[s * columns + j];
    }
    const W alpha = a[c * pitch + c], beside = a[c * pitch + j];
    const bool still = below == R(0) && imag_part(alpha) == R(0);
    const R norm = root(square_of(alpha) + below);
    const R beta = real_part(alpha) < R(0) ? norm : -norm;
    const W factor = scaled(of_real<W>(beta) - alpha, R(1) / beta);
    const W inverse = of_real<W>(1) / (alpha - of_real<W>(beta));
    const W taken = conjugate(factor) * (beside + conjugate(inverse) * product);
    __syncthreads();
    if (still) {
      if (threadIdx.x == 0) factors[c] = of_real<W>(0);
      continue;
    }
    if (works && j > c) {
      const W times = inverse * taken;
      for (int64_t i = c + 1 + begin; i < p.rows; i += step)
        a[i * pitch + j] = minus_product(a[i * pitch + j], a[i * pitch + c], times);
      if (slice == 0 && lane == 0) a[c * pitch + j] = beside - taken;
    }
    __syncthreads();
    for (int64_t i = c + 1 + threadIdx.x; i < p.rows; i += kPanelThreads) a[i * pitch + c] = a[i * pitch + c] * inverse;
    if (threadIdx.x == 0) {
      a[c * pitch + c] = of_real<W>(beta);
      factors[c] = factor;
    }
  }
  if (!p.in_shared) return;
  __syncthreads();
  copy_panel(from, p.a.row, a, pitch, p);
}

/// v [rows, columns]: the vectors of a reflected panel, which begins p.flag rows below v's first; 0 elsewhere. A factor
/// of 0 is no reflection.
template <typename T>
__global__ void __launch_bounds__(256) reflectors(T* v, const T* panel, const T* tau, StepParams p) {
  using W = typename Computed<T>::type;
  each_element(p, [&](int64_t batch, int64_t row, int64_t j) {
    const int64_t i = row - p.flag;
    const W factor = piece(tau, batch * p.vector)[j];
    W value = of_real<W>(i == j ? 1 : 0);
    if (i > j) value = piece(panel, batch * p.b.batch)[i * p.b.row + j];
    if (square_of(factor) == Real<W>(0)) value = of_real<W>(0);
    piece(v, batch * p.a.batch)[row * p.a.row + j] = value;
  });
}

/// The diagonal of a [rows, rows] becomes 1 / tau, or 1 where there is no reflection. p.flag: their conjugates.
template <typename T>
__global__ void __launch_bounds__(256) set_factors(T* a, const T* tau, StepParams p) {
  using W = typename Computed<T>::type;
  each_element(p, [&](int64_t batch, int64_t i, int64_t) {
    const W factor = piece(tau, batch * p.vector)[i];
    W value = of_real<W>(1);
    if (square_of(factor) != Real<W>(0)) value = value / factor;
    piece(a, batch * p.a.batch)[i * (p.a.row + 1)] = p.flag ? conjugate(value) : value;
  });
}

/// out = a out of its range again; p.flag: only the upper triangle of a, whose scale is undone, and 0 below. NaN in the
/// rest where x was not finite.
template <typename T>
__global__ void __launch_bounds__(256)
    finish_qr(T* out, const T* a, const Real<typename Computed<T>::type>* parts, StepParams p) {
  using W = typename Computed<T>::type;
  using R = Real<W>;
  Range<R> range(parts);
  each_element(p, [&](int64_t batch, int64_t i, int64_t j) {
    const R most = range.of(batch);
    W value = piece(a, batch * p.b.batch)[i * p.b.row + j];
    if (p.flag) value = scaled(value, R(1) / scale_for(most));
    if (most - most != R(0)) value = not_a_number<W>();
    if (p.flag && j < i) value = of_real<W>(0);
    piece(out, batch * p.a.batch)[i * p.a.row + j] = value;
  });
}

}  // namespace gpukit::linalg
