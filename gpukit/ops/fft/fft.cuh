// Transforms of rows in shared memory: any smooth length, one block a few rows, one pass a radix.
#pragma once
#include "gpukit/ops/fft/fft_butterfly.cuh"
#include "gpukit/ops/fft/fft_params.cuh"

namespace gpukit {

inline constexpr int kMaxBlockRows = 64;

template <typename T>
struct Butterfly<1, T> {
  static GPUKIT_DEVICE void run(Point<T>*) {}
};

GPUKIT_DEVICE int64_t line_offset(const FftSide& side, int64_t line) {
  int64_t at = 0;
  for (int i = side.rank - 1; i >= 0; --i) {
    const int64_t size = side.shape[i];
    at += line % size * side.strides[i];
    line /= size;
  }
  return at;
}

template <typename T>
GPUKIT_DEVICE Point<T> load_pair(const FftSide& side, const T* x, int64_t line, int64_t position) {
  const int64_t i = 2 * position;
  return {i < side.length ? x[line + i * side.step] : T(0), i + 1 < side.length ? x[line + (i + 1) * side.step] : T(0)};
}

/// A frequency of the lower half of a spectrum.
template <typename T>
GPUKIT_DEVICE Point<T> load_half(const FftSide& side, const Point<T>* x, int64_t line, int64_t position) {
  if (position >= side.length) return {T(0), T(0)};
  Point<T> v = x[line + position * side.step];
  if (side.conjugate) v.im = -v.im;
  if (position == 0 || position == side.folded) v.im = T(0);
  return v;
}

/// The point of a folded spectrum whose transform has two neighbouring reals in each point. `half` has the roots of
/// 2 folded.
template <typename T>
GPUKIT_DEVICE Point<T> load_folded(const FftSide& side, const Point<T>* x, int64_t line, int64_t position,
                                   const Point<T>* half) {
  const Point<T> a = load_half(side, x, line, position);
  Point<T> b = load_half(side, x, line, side.folded - position);
  b.im = -b.im;
  const Point<T> odd = (a - b) * half[position];
  return {a.re + b.re - odd.im, a.im + b.im + odd.re};
}

/// The element at a position of a line.
template <typename T>
GPUKIT_DEVICE Point<T> load_point(const FftSide& side, const void* x, int64_t line, int64_t position,
                                  const Point<T>* half) {
  if (side.folded != 0) return load_folded(side, static_cast<const Point<T>*>(x), line, position, half);
  if (side.pairs) return load_pair(side, static_cast<const T*>(x), line, position);
  bool conjugate = side.conjugate != 0;
  bool flat = false;
  if (side.mirror != 0) {
    flat = position == 0 || 2 * position == side.mirror;
    if (2 * position > side.mirror) {
      position = side.mirror - position;
      conjugate = !conjugate;
    }
  }
  if (position >= side.length) return {T(0), T(0)};
  const int64_t at = line + position * side.step;
  if (side.real) return {static_cast<const T*>(x)[at], T(0)};
  Point<T> v = static_cast<const Point<T>*>(x)[at];
  if (conjugate) v.im = -v.im;
  if (flat) v.im = T(0);
  return v;
}

template <typename T>
GPUKIT_DEVICE void store_point(const FftSide& side, void* out, int64_t line, int64_t position, Point<T> v, T scale) {
  if (side.pairs) {
    T* to = static_cast<T*>(out) + line;
    if (2 * position < side.length) to[2 * position * side.step] = v.re * scale;
    if (2 * position + 1 < side.length) to[(2 * position + 1) * side.step] = v.im * scale;
    return;
  }
  if (position >= side.length) return;
  const int64_t at = line + position * side.step;
  if (side.real)
    static_cast<T*>(out)[at] = v.re * scale;
  else
    static_cast<Point<T>*>(out)[at] = {v.re * scale, side.conjugate ? -v.im * scale : v.im * scale};
}

/// Frequencies k and n - k of 2 n reals, and those that mirror them, from the points k and n - k of their pairs.
template <typename T>
GPUKIT_DEVICE void store_unfolded(const FftSide& side, void* out, int64_t line, int64_t k, int64_t n, Point<T> a,
                                  Point<T> b, const Point<T>* half, T scale) {
  b.im = -b.im;
  const Point<T> even = {(a.re + b.re) * T(0.5), (a.im + b.im) * T(0.5)};
  const Point<T> odd = turn(Point<T>{(a.re - b.re) * T(0.5), (a.im - b.im) * T(0.5)}) * half[k];
  const Point<T> low = even + odd;
  Point<T> high = even - odd;
  high.im = -high.im;
  store_point(side, out, line, k, low, scale);
  if (k > 0) store_point(side, out, line, 2 * n - k, Point<T>{low.re, -low.im}, scale);
  if (2 * k == n) return;
  store_point(side, out, line, n - k, high, scale);
  if (k > 0) store_point(side, out, line, n + k, Point<T>{high.re, -high.im}, scale);
}

/// Rows of a block: where their lines start and which column of it they are.
struct BlockRows {
  int64_t in_line[kMaxBlockRows], out_line[kMaxBlockRows], in_column[kMaxBlockRows], out_column[kMaxBlockRows];
};

/// One place in 16 (8 for float64) stays free, so that strides by powers of two meet every bank.
template <typename T>
GPUKIT_DEVICE int spread(int i) {
  return i + (i >> (sizeof(T) == 8 ? 3 : 4));
}

template <typename T>
struct PassContext {
  const FftParams& p;
  const BlockRows& rows;
  void* out;
  const void* x;
  const Point<T>*roots, *fine, *coarse, *half;
  Point<T>*from, *to;
  int active, pitch;
};

template <typename T, int R>
GPUKIT_DEVICE void fft_pass(const PassContext<T>& c, int s, bool first, bool last) {
  const FftParams& p = c.p;
  const int count = p.n / R;
  const int total = count * c.active;
  const bool by_row = first ? p.in.row_fastest : last && p.out.row_fastest;
  for (int b = threadIdx.x; b < total; b += blockDim.x) {
    const int row = by_row ? b % c.active : b / count;
    const int at = by_row ? b / c.active : b % count;
    Point<T> v[R];
    if (first) {
#pragma unroll
      for (int j = 0; j < R; ++j)
        v[j] = load_point<T>(p.in, c.x, c.rows.in_line[row], c.rows.in_column[row] + (at + j * count) * p.in.index_step,
                             c.half);
    } else {
#pragma unroll
      for (int j = 0; j < R; ++j) v[j] = c.from[row * c.pitch + spread<T>(at + j * count)];
    }
    Butterfly<R, T>::run(v);
    if (!last) {
      const int base = at / s * s;
      Point<T>* line = c.to + row * c.pitch;
      const int first_out = at + base * (R - 1);
      line[spread<T>(first_out)] = v[0];
#pragma unroll
      for (int j = 1; j < R; ++j) line[spread<T>(first_out + j * s)] = v[j] * c.roots[base * j];
      continue;
    }
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const int k = at + j * s;
      if (p.unfold) {
        c.to[row * c.pitch + spread<T>(k)] = v[j];
        continue;
      }
      if (p.twiddle) {
        const int64_t power = c.rows.in_column[row] * k;
        v[j] = v[j] * (c.coarse[power / kFineRoots] * c.fine[power % kFineRoots]);
      }
      store_point<T>(p.out, c.out, c.rows.out_line[row], c.rows.out_column[row] + k * p.out.index_step, v[j],
                     static_cast<T>(p.scale));
    }
  }
}

/// Shared memory: two buffers of rows_per_block rows. Every row of a block is read before any of it is written.
template <typename T>
__global__ void __launch_bounds__(512) fft_rows(void* out, const void* x, const Point<T>* roots, const Point<T>* fine,
                                                const Point<T>* coarse, const Point<T>* half, const FftParams p) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ BlockRows rows;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * p.rows_per_block;
  const int active = static_cast<int>(p.rows - begin < p.rows_per_block ? p.rows - begin : p.rows_per_block);
  for (int r = threadIdx.x; r < active; r += blockDim.x) {
    const int64_t row = begin + r;
    rows.in_line[r] = line_offset(p.in, row / p.in.columns);
    rows.in_column[r] = row % p.in.columns;
    rows.out_line[r] = line_offset(p.out, row / p.out.columns);
    rows.out_column[r] = row % p.out.columns;
  }
  const int pitch = spread<T>(p.n) + 1;
  Point<T>* a = reinterpret_cast<Point<T>*>(shared);
  Point<T>* b = a + p.rows_per_block * pitch;
  __syncthreads();
  int s = 1;
  for (int i = 0; i < p.num_radices; ++i) {
    const bool first = i == 0, last = i + 1 == p.num_radices;
    const PassContext<T> c{p, rows, out, x, roots, fine, coarse, half, a, b, active, pitch};
    const int radix = p.radices[i];
    switch (radix) {
      case 1: fft_pass<T, 1>(c, s, first, last); break;
      case 2: fft_pass<T, 2>(c, s, first, last); break;
      case 3: fft_pass<T, 3>(c, s, first, last); break;
      case 4: fft_pass<T, 4>(c, s, first, last); break;
      case 5: fft_pass<T, 5>(c, s, first, last); break;
      case 7: fft_pass<T, 7>(c, s, first, last); break;
      default: fft_pass<T, 8>(c, s, first, last); break;
    }
    __syncthreads();
    s *= radix;
    Point<T>* swap = a;
    a = b;
    b = swap;
  }
  if (!p.unfold) return;
  const int count = p.n / 2 + 1;
  for (int i = threadIdx.x; i < count * active; i += blockDim.x) {
    const int row = p.out.row_fastest ? i % active : i / count, k = p.out.row_fastest ? i / active : i % count;
    const Point<T>* line = a + row * pitch;
    store_unfolded(p.out, out, rows.out_line[row], k, p.n, line[spread<T>(k)], line[spread<T>(k == 0 ? 0 : p.n - k)],
                   half, static_cast<T>(p.scale));
  }
}

/// The same for points that lie in memory, row by row.
template <typename T>
__global__ void fft_unfold(void* out, const Point<T>* points, const Point<T>* half, int64_t first, int64_t rows,
                           int64_t n, double scale, const FftSide side) {
  const int64_t count = n / 2 + 1;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < rows * count;
       at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t row = at / count, k = at % count;
    const Point<T>* line = points + row * n;
    store_unfolded(side, out, line_offset(side, first + row), k, n, line[k], line[k == 0 ? 0 : n - k], half, T(scale));
  }
}

/// table[i] = e^(-2 pi i stride i / n), computed in float64 and rounded.
template <typename T>
__global__ void fft_roots(Point<T>* table, int64_t count, int64_t stride, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  double sine, cosine;
  sincospi(-2.0 * static_cast<double>(i * stride % n) / static_cast<double>(n), &sine, &cosine);
  table[i] = {static_cast<T>(cosine), static_cast<T>(sine)};
}

/// Bluestein: chirp[k] = e^(-pi i k^2 / n), and its conjugate around 0 in a filter of m points.
template <typename T>
__global__ void fft_chirp(Point<T>* chirp, Point<T>* filter, int64_t n, int64_t m) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= m) return;
  const int64_t k = i < n ? i : m - i;
  if (k >= n) {
    filter[i] = {T(0), T(0)};
    return;
  }
  // k^2 mod 2n keeps the angle exact.
  double sine, cosine;
  sincospi(-static_cast<double>(static_cast<uint64_t>(k) * static_cast<uint64_t>(k) % (2 * static_cast<uint64_t>(n))) /
               static_cast<double>(n),
           &sine, &cosine);
  const Point<T> w = {static_cast<T>(cosine), static_cast<T>(sine)};
  if (i < n) chirp[i] = w;
  filter[i] = {w.re, -w.im};
}

/// to[row, i] = x[row, i] chirp[i], zeros from n to m.
template <typename T>
__global__ void fft_modulate(Point<T>* to, const void* x, const Point<T>* chirp, const Point<T>* half, int64_t first,
                             int64_t rows, int64_t n, int64_t m, const FftSide side) {
  const int64_t size = rows * m;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < size;
       at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t i = at % m;
    Point<T> v = {T(0), T(0)};
    if (i < n) v = load_point<T>(side, x, line_offset(side, first + at / m), i, half) * chirp[i];
    to[at] = v;
  }
}

/// v becomes the conjugate of v filter.
template <typename T>
__global__ void fft_convolve(Point<T>* values, const Point<T>* filter, int64_t size, int64_t m) {
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < size;
       at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const Point<T> v = values[at] * filter[at % m];
    values[at] = {v.re, -v.im};
  }
}

/// out[row, k] = conjugate(from[row, k]) chirp[k] scale.
template <typename T>
__global__ void fft_demodulate(void* out, const Point<T>* from, const Point<T>* chirp, int64_t first, int64_t rows,
                               int64_t n, int64_t m, double scale, const FftSide side) {
  const int64_t size = rows * n;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < size;
       at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t k = at % n, row = at / n;
    const Point<T> v = from[row * m + k];
    store_point<T>(side, out, line_offset(side, first + row), k, Point<T>{v.re, -v.im} * chirp[k], T(scale));
  }
}

}  // namespace gpukit
