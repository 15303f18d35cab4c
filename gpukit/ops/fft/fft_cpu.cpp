#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <vector>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/fft/fft_butterfly.cuh"
#include "gpukit/ops/fft/fft_impl.h"
#include "gpukit/ops/fft/fft_plan.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

using fft::Elements;
using fft::Transform;

Point<double> root(int64_t k, int64_t n) {
  const double angle = -2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

/// What a length needs beside the data. `inner`: of the convolution of a length with other prime factors.
template <typename T>
struct Plan {
  int64_t n = 1;
  std::vector<int> radices;
  std::vector<Point<T>> roots;          // e^(-2 pi i k / n), rounded from float64
  std::vector<Point<T>> chirp, filter;  // e^(-pi i k^2 / n), and the transform of its conjugate
  std::vector<Point<T>> half;           // e^(-pi i k / n), for points that are pairs of reals
  std::shared_ptr<const Plan<T>> inner;
  int64_t scratch() const { return inner ? 2 * inner->n : n; }
  size_t bytes() const { return (roots.size() + chirp.size() + filter.size() + half.size()) * sizeof(Point<T>); }
};

/// One Stockham pass: results of radix R for indices [begin, end) of n / R, at stride s.
template <int R, typename T>
void pass(Point<T>* y, const Point<T>* x, const Point<T>* roots, int64_t n, int64_t s, int64_t begin, int64_t end) {
  const int64_t count = n / R;
  for (int64_t at = begin; at < end;) {
    const int64_t base = at / s * s;
    const int64_t stop = std::min(end, base + s);
    Point<T> w[R];
    for (int j = 1; j < R; ++j) w[j] = roots[base * j];
    const Point<T>* from = x;
    Point<T>* to = y + base * (R - 1);
    for (; at < stop; ++at) {
      Point<T> v[R];
      for (int j = 0; j < R; ++j) v[j] = from[at + j * count];
      Butterfly<R, T>::run(v);
      to[at] = v[0];
      for (int j = 1; j < R; ++j) to[at + j * s] = v[j] * w[j];
    }
  }
}

template <typename T>
void any_pass(int radix, Point<T>* y, const Point<T>* x, const Point<T>* roots, int64_t n, int64_t s) {
  constexpr int64_t kGrain = 1 << 15;
  parallel_for(n / radix, kGrain, [&](int64_t begin, int64_t end) {
    switch (radix) {
      case 2: pass<2>(y, x, roots, n, s, begin, end); break;
      case 3: pass<3>(y, x, roots, n, s, begin, end); break;
      case 4: pass<4>(y, x, roots, n, s, begin, end); break;
      case 5: pass<5>(y, x, roots, n, s, begin, end); break;
      case 7: pass<7>(y, x, roots, n, s, begin, end); break;
      default: pass<8>(y, x, roots, n, s, begin, end); break;
    }
  });
}

/// The transform of a smooth length. The result is in one of the two buffers.
template <typename T>
Point<T>* run_smooth(const Plan<T>& plan, Point<T>* data, Point<T>* other) {
  int64_t s = 1;
  for (int radix : plan.radices) {
    any_pass(radix, other, data, plan.roots.data(), plan.n, s);
    std::swap(data, other);
    s *= radix;
  }
  return data;
}

/// data has n points and room for scratch() of them, other as many.
template <typename T>
Point<T>* run_plan(const Plan<T>& plan, Point<T>* data, Point<T>* other) {
  if (!plan.inner) return run_smooth(plan, data, other);
  const int64_t n = plan.n, m = plan.inner->n;
  for (int64_t i = 0; i < n; ++i) data[i] = data[i] * plan.chirp[static_cast<size_t>(i)];
  for (int64_t i = n; i < m; ++i) data[i] = {T(0), T(0)};
  Point<T>* spectrum = run_smooth(*plan.inner, data, other);
  // The way back is the way there of the conjugate.
  for (int64_t i = 0; i < m; ++i) {
    const Point<T> v = spectrum[i] * plan.filter[static_cast<size_t>(i)];
    spectrum[i] = {v.re, -v.im};
  }
  Point<T>* sums = run_smooth(*plan.inner, spectrum, spectrum == data ? other : data);
  const T scale = T(1) / static_cast<T>(m);
  for (int64_t i = 0; i < n; ++i) {
    const Point<T> v = sums[i];
    sums[i] = Point<T>{v.re * scale, -v.im * scale} * plan.chirp[static_cast<size_t>(i)];
  }
  return sums;
}

template <typename T>
std::shared_ptr<const Plan<T>> get_plan(int64_t n, bool pairs = false);

/// The first `count` powers of the root of n.
template <typename T>
std::vector<Point<T>> make_roots(int64_t n, int64_t count) {
  std::vector<Point<T>> roots(static_cast<size_t>(count));
  parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const Point<double> w = root(k, n);
      roots[static_cast<size_t>(k)] = {static_cast<T>(w.re), static_cast<T>(w.im)};
    }
  });
  return roots;
}

template <typename T>
void make_convolution(Plan<T>& plan) {
  const int64_t n = plan.n, m = fft::convolution_length(n);
  plan.inner = get_plan<T>(m);
  const auto exact = get_plan<double>(m);
  plan.chirp.resize(static_cast<size_t>(n));
  std::vector<Point<double>> filter(static_cast<size_t>(m), Point<double>{0, 0}), other(static_cast<size_t>(m));
  for (int64_t k = 0; k < n; ++k) {
    // k^2 mod 2n keeps the angle exact.
    const auto square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<unsigned __int128>(k) %
                                             static_cast<unsigned __int128>(2 * n));
    const Point<double> w = root(square, 2 * n);
    plan.chirp[static_cast<size_t>(k)] = {static_cast<T>(w.re), static_cast<T>(w.im)};
    filter[static_cast<size_t>(k)] = {w.re, -w.im};
    if (k > 0) filter[static_cast<size_t>(m - k)] = {w.re, -w.im};
  }
  const Point<double>* done = run_smooth(*exact, filter.data(), other.data());
  plan.filter.resize(static_cast<size_t>(m));
  for (size_t i = 0; i < plan.filter.size(); ++i)
    plan.filter[i] = {static_cast<T>(done[i].re), static_cast<T>(done[i].im)};
}

/// Plans of lengths used before, up to some 64 MiB of tables.
template <typename T>
std::shared_ptr<const Plan<T>> get_plan(int64_t n, bool pairs) {
  struct Cache {
    std::mutex mutex;
    std::map<std::pair<int64_t, bool>, std::shared_ptr<const Plan<T>>> plans;
    size_t bytes = 0;
  };
  static Cache& cache = *new Cache;  // threads may compute while the process ends
  {
    std::lock_guard lock(cache.mutex);
    const auto found = cache.plans.find({n, pairs});
    if (found != cache.plans.end()) return found->second;
  }
  auto plan = std::make_shared<Plan<T>>();
  plan->n = n;
  if (fft::is_smooth(n)) {
    plan->radices = fft::radices(n);
    plan->roots = make_roots<T>(n, n);
  } else {
    make_convolution(*plan);
  }
  if (pairs) plan->half = make_roots<T>(2 * n, n);
  std::lock_guard lock(cache.mutex);
  constexpr size_t kMaxBytesKept = size_t{64} << 20;
  if (cache.bytes + plan->bytes() > kMaxBytesKept) {
    cache.plans.clear();
    cache.bytes = 0;
  }
  if (cache.plans.emplace(std::pair(n, pairs), plan).second) cache.bytes += plan->bytes();
  return plan;
}

/// Rows of a view without one axis, and the steps along it.
struct Rows {
  int rank = 0;
  int64_t count = 1, length = 0, step = 0;
  int64_t shape[kMaxRank] = {}, strides[kMaxRank] = {};
  int64_t offset(int64_t row) const {
    int64_t at = 0;
    for (int i = rank - 1; i >= 0; --i) {
      at += row % shape[i] * strides[i];
      row /= shape[i];
    }
    return at;
  }
};

Rows rows_of(const Array& a, int axis) {
  Rows rows;
  rows.length = a.shape()[axis];
  rows.step = a.strides()[axis];
  for (int i = 0; i < a.ndim(); ++i) {
    if (i == axis) continue;
    rows.shape[rows.rank] = a.shape()[i];
    rows.strides[rows.rank++] = a.strides()[i];
    rows.count *= a.shape()[i];
  }
  return rows;
}

template <typename T>
void load_row(Point<T>* to, const void* from, int64_t offset, const Rows& rows, const Transform& t) {
  const T sign = t.conjugate_input ? T(-1) : T(1);
  if (t.input == Elements::real) {
    const T* x = static_cast<const T*>(from) + offset;
    const int64_t given = std::min(rows.length, t.n);
    for (int64_t i = 0; i < given; ++i) to[i] = {x[i * rows.step], T(0)};
    for (int64_t i = given; i < t.n; ++i) to[i] = {T(0), T(0)};
    return;
  }
  const Point<T>* x = static_cast<const Point<T>*>(from) + offset;
  const int64_t wanted = t.input == Elements::hermitian ? t.n / 2 + 1 : t.n;
  const int64_t given = std::min(rows.length, wanted);
  for (int64_t i = 0; i < given; ++i) to[i] = {x[i * rows.step].re, sign * x[i * rows.step].im};
  for (int64_t i = given; i < wanted; ++i) to[i] = {T(0), T(0)};
  if (t.input != Elements::hermitian) return;
  // What a real signal has no room for: the imaginary parts of frequency 0 and of the highest.
  to[0].im = T(0);
  if (t.n % 2 == 0) to[t.n / 2].im = T(0);
  for (int64_t i = wanted; i < t.n; ++i) to[i] = {to[t.n - i].re, -to[t.n - i].im};
}

template <typename T>
void store_row(void* to, int64_t offset, const Point<T>* from, const Rows& rows, const Transform& t) {
  const T scale = static_cast<T>(t.scale), mirrored = t.conjugate_output ? -scale : scale;
  if (t.output == Elements::real) {
    T* y = static_cast<T*>(to) + offset;
    for (int64_t i = 0; i < rows.length; ++i) y[i * rows.step] = from[i].re * scale;
    return;
  }
  Point<T>* y = static_cast<Point<T>*>(to) + offset;
  for (int64_t i = 0; i < rows.length; ++i) y[i * rows.step] = {from[i].re * scale, from[i].im * mirrored};
}

/// As load_row, but for t.n / 2 points: of reals pairs, of a spectrum what transforms into pairs of reals.
template <typename T>
void load_pairs(Point<T>* to, const void* from, int64_t offset, const Rows& rows, const Transform& t,
                const Point<T>* half) {
  const int64_t n = t.n / 2;
  if (t.input == Elements::real) {
    const T* x = static_cast<const T*>(from) + offset;
    for (int64_t i = 0; i < n; ++i)
      to[i] = {2 * i < rows.length ? x[2 * i * rows.step] : T(0),
               2 * i + 1 < rows.length ? x[(2 * i + 1) * rows.step] : T(0)};
    return;
  }
  const Point<T>* x = static_cast<const Point<T>*>(from) + offset;
  const auto at = [&](int64_t i) {
    if (i >= rows.length) return Point<T>{T(0), T(0)};
    const Point<T> v = x[i * rows.step];
    if (i == 0 || i == n) return Point<T>{v.re, T(0)};
    return Point<T>{v.re, t.conjugate_input ? -v.im : v.im};
  };
  for (int64_t i = 0; i < n; ++i) {
    const Point<T> a = at(i);
    Point<T> b = at(n - i);
    b.im = -b.im;
    const Point<T> odd = (a - b) * half[i];
    to[i] = {a.re + b.re - odd.im, a.im + b.im + odd.re};
  }
}

/// As store_row, from the t.n / 2 points of pairs.
template <typename T>
void store_pairs(void* to, int64_t offset, const Point<T>* from, const Rows& rows, const Transform& t,
                 const Point<T>* half) {
  const int64_t n = t.n / 2;
  const T scale = static_cast<T>(t.scale), mirrored = t.conjugate_output ? -scale : scale;
  if (t.output == Elements::real) {
    T* y = static_cast<T*>(to) + offset;
    for (int64_t i = 0; i < rows.length; ++i) y[i * rows.step] = (i % 2 == 0 ? from[i / 2].re : from[i / 2].im) * scale;
    return;
  }
  Point<T>* y = static_cast<Point<T>*>(to) + offset;
  const auto put = [&](int64_t i, Point<T> v) {
    if (i < rows.length) y[i * rows.step] = {v.re * scale, v.im * mirrored};
  };
  for (int64_t k = 0; k <= n / 2; ++k) {
    const Point<T> a = from[k];
    Point<T> b = from[k == 0 ? 0 : n - k];
    b.im = -b.im;
    const Point<T> even = {(a.re + b.re) * T(0.5), (a.im + b.im) * T(0.5)};
    const Point<T> odd = turn(Point<T>{(a.re - b.re) * T(0.5), (a.im - b.im) * T(0.5)}) * half[k];
    const Point<T> low = even + odd, high = even - odd;
    put(k, low);
    if (k > 0) put(t.n - k, {low.re, -low.im});
    if (2 * k == n) continue;
    put(n - k, {high.re, -high.im});
    if (k > 0) put(n + k, high);
  }
}

template <typename T>
void run(const char* op, const Array& out, const Array& x, int axis, const Transform& t) {
  const Rows from = rows_of(x, axis), to = rows_of(out, axis);
  // An even number of reals, there or here, is half as many points.
  const bool pairs = t.n % 2 == 0 && t.input != Elements::complex;
  const auto plan = get_plan<T>(pairs ? t.n / 2 : t.n, pairs);
  // Chunks of rows, each with two buffers; how many there are changes no bit.
  const int64_t chunks = std::min<int64_t>(to.count, 4 * num_threads());
  const int64_t room = plan->scratch();
  Temporaries temporaries(op);
  const Array scratch =
      temporaries.empty({chunks, 2, room}, sizeof(T) == 8 ? DType::complex128 : DType::complex64, out.device());
  runtime::run_host(
      op, out.device(), {write(out), read(x), write(scratch)},
      [plan, pairs, from, to, t, chunks, room](void* const* address) {
        auto* buffers = static_cast<Point<T>*>(address[2]);
        const int64_t per_chunk = ceil_div(to.count, chunks);
        parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
          for (int64_t chunk = begin; chunk < end; ++chunk) {
            Point<T>* data = buffers + chunk * 2 * room;
            const int64_t stop = std::min(to.count, (chunk + 1) * per_chunk);
            for (int64_t row = chunk * per_chunk; row < stop; ++row) {
              const int64_t in = from.offset(row), there = to.offset(row);
              const Point<T>* half = plan->half.data();
              pairs ? load_pairs(data, address[1], in, from, t, half) : load_row(data, address[1], in, from, t);
              const Point<T>* done = run_plan(*plan, data, data + room);
              pairs ? store_pairs(address[0], there, done, to, t, half) : store_row(address[0], there, done, to, t);
            }
          }
        });
      });
}

}  // namespace

void fourier(const char* op, const Array& out, const Array& x, int axis, const Transform& transform) {
  if (real_of(out.dtype()) == DType::float64)
    run<double>(op, out, x, axis, transform);
  else
    run<float>(op, out, x, axis, transform);
}

}  // namespace gpukit::cpu
