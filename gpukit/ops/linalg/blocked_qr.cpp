#include <algorithm>

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/linalg/blocked.h"
#include "gpukit/ops/linalg/blocked_impl.h"
#include "gpukit/ops/linalg/products.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::linalg {

namespace {

constexpr int64_t kUnblocked = 64 * 64;
constexpr int64_t kReflections = 128;  // that are applied at a time
constexpr int64_t kChunk = 256;        // rows that one block of a GPU sums of V^H C; the sums of chunks are added then

/// The first [shape] elements of a flat array.
Array first_of(const Array& all, const Dims& shape) { return all.narrow(0, 0, shape.product()).reshape_view(shape); }

/// A group of matrices on their way to R, their rows padded with zeros to whole chunks.
struct Reflecting {
  const char* op;
  int64_t m, chunk;
  Array a, tau;
  // For V and its adjoint, the inverse of T, V^H C and its parts.
  Array v, adjoint, factors, product, parts;

  /// out = x^H y for rows from a chunk's first on; x is v.
  void inner(const Array& out, const Array& x, const Array& y) const {
    const int64_t batch = y.shape(0), rows = y.shape(1), chunks = rows / chunk, n = x.shape(2), width = y.shape(2);
    Array left = x.permute({0, 2, 1});
    if (is_complex(x.dtype())) {
      left = first_of(adjoint, {batch, n, rows});
      GPUKIT_STEP(x, mirror(op, left, x));
    }
    const MatmulOptions exact{.precision = MatmulPrecision::exact};
    if (chunks == 1) {
      matmul(left, y, &out, exact);
      return;
    }
    const Array sums = first_of(parts, {batch, chunks, n, width});
    matmul(left.reshape_view({batch, n, chunks, chunk}).permute({0, 2, 1, 3}),
           y.reshape_view({batch, chunks, chunk, width}), &sums, exact);
    sum(sums, Dims{1}, false, {}, &out);
  }

  /// Columns [column, column + width) of c become Q^H c, or Q c, for the reflections of columns [first, first + count).
  void reflect(int64_t first, int64_t count, const Array& c, int64_t column, int64_t width, bool adjoints) const {
    const int64_t batch = a.shape(0), start = first / chunk * chunk, rows = a.shape(1) - start;
    const Array vectors = first_of(v, {batch, rows, count}), used = tau.narrow(1, first, count);
    const Array inverse = first_of(factors, {batch, count, count}), w = first_of(product, {batch, count, width});
    GPUKIT_STEP(a, reflectors(op, vectors, block_of(a, first, a.shape(1) - first, first, count), used, first - start));
    inner(inverse, vectors, vectors);
    GPUKIT_STEP(a, set_factors(op, inverse, used, adjoints));
    inner(w, vectors, block_of(c, start, rows, column, width));
    if (adjoints)
      solve_lower(op, w, inverse, false);
    else
      solve_upper(op, w, inverse);
    subtract_product(op, block_of(c, first, m - first, column, width), vectors.narrow(1, first - start, m - first), w);
  }

  /// Panels of columns [first, first + count), each applied to those beside it.
  void factor(int64_t first, int64_t count) const {
    const int64_t rows = m - first;
    if (count <= GPUKIT_STEP(a, qr_panel_columns(a, rows))) {
      GPUKIT_STEP(a, qr_panel(op, block_of(a, first, rows, first, count), tau.narrow(1, first, count)));
      return;
    }
    const int64_t cut = cut_of(count);
    factor(first, cut);
    reflect(first, cut, a, first + cut, count - cut, true);
    factor(first + cut, count - cut);
  }
};

}  // namespace

bool is_blocked_qr(int64_t m, int64_t n) { return m * n > kUnblocked; }

void blocked_qr(const char* op, const Array& q, const Array& r, const Array& x) {
  const Array to_q = q.defined() ? as_batch(q) : q, to_r = as_batch(r), from = as_batch(x);
  const Device device = x.device();
  const DType dtype = x.dtype();
  const int64_t m = from.shape(1), n = from.shape(2), k = q.defined() ? q.shape(-1) : 0, steps = std::min(m, n),
                all = from.shape(0);
  const int64_t most = std::min(steps, kReflections), widest = std::max({n, k, most});
  const int64_t chunk = device.kind == DeviceKind::cuda ? std::min(m, kChunk) : m;
  const int64_t chunks = (m + chunk - 1) / chunk, padded = chunks * chunk;
  const int64_t elements = padded * (n + k + 2 * most) + (chunks + 1) * most * widest;
  const int64_t group = group_of(all, elements * itemsize(dtype));
  Temporaries temporaries(op);
  const auto room = [&](int64_t size) { return temporaries.empty({size}, dtype, device); };
  const Array a = temporaries.empty({group, padded, n}, dtype, device);
  const Array made = temporaries.empty({group, padded, k}, dtype, device);
  const Array tau = temporaries.empty({group, steps}, dtype, device);
  const Array range = temporaries.empty({group, kRangeParts}, real_of(dtype), device);
  const Array v = room(group * padded * most), factors = room(group * most * most);
  const Array adjoint = is_complex(dtype) ? room(group * padded * most) : Array();
  const Array product = room(group * most * widest);
  const Array parts = chunks > 1 ? room(group * chunks * most * widest) : Array();
  for (int64_t first = 0; first < all; first += group) {
    const int64_t count = std::min(group, all - first);
    const auto here = [count](const Array& whole) { return whole.narrow(0, 0, count); };
    const Reflecting on{op, m, chunk, here(a), here(tau), v, adjoint, factors, product, parts};
    const Array found = here(made), bounds = here(range), given = from.narrow(0, first, count);
    GPUKIT_STEP(x, range_parts(op, bounds, given));
    GPUKIT_STEP(x, qr_load(op, on.a, given, bounds));
    for (int64_t column = 0; column < steps; column += kReflections) {
      const int64_t width = std::min(kReflections, steps - column), next = column + width;
      on.factor(column, width);
      if (next < n) on.reflect(column, width, on.a, next, n - next, true);
    }
    GPUKIT_STEP(x, finish_qr(op, to_r.narrow(0, first, count), on.a.narrow(1, 0, to_r.shape(1)), bounds, true));
    if (!q.defined()) continue;
    fill(found, int64_t{0});
    fill(diagonal(found), int64_t{1});
    for (int64_t column = (steps - 1) / kReflections * kReflections; column >= 0; column -= kReflections)
      on.reflect(column, std::min(kReflections, steps - column), found, column, k - column, false);
    GPUKIT_STEP(x, finish_qr(op, to_q.narrow(0, first, count), found.narrow(1, 0, m), bounds, false));
  }
}

}  // namespace gpukit::linalg
