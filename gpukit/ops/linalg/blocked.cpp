#include "gpukit/ops/linalg/blocked.h"

#include <algorithm>

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/linalg/blocked_impl.h"
#include "gpukit/ops/linalg/products.h"
#include "gpukit/ops/matmul/matmul.h"

namespace gpukit::linalg {

namespace {

constexpr int64_t kUnblocked = 64;

Array reversed(const Array& x, int axis) { return x.slice(axis, x.shape(axis) - 1, -1, -1); }

/// c -= left right in c's upper triangle and some of the other one.
void subtract_upper(const char* op, const Array& c, const Array& left, const Array& right) {
  constexpr int64_t kWhole = 512;  // halves of the products of smaller squares are not worth more launches
  const int64_t n = c.shape(1);
  if (n <= kWhole) return subtract_product(op, c, left, right);
  const int64_t cut = cut_of(n), rest = n - cut;
  const Array top = left.narrow(1, 0, cut), last = right.narrow(2, cut, rest);
  subtract_upper(op, block_of(c, 0, cut, 0, cut), top, right.narrow(2, 0, cut));
  subtract_product(op, block_of(c, 0, cut, cut, rest), top, last);
  subtract_upper(op, block_of(c, cut, rest, cut, rest), left.narrow(1, cut, rest), last);
}

/// The upper triangle of a becomes U of a = U^H U; below the diagonal lies U^H.
void factor_definite(const char* op, const Array& a) {
  const int64_t n = a.shape(1);
  if (n <= diagonal_block(itemsize(a.dtype()))) return GPUKIT_STEP(a, cholesky_block(op, a));
  const int64_t cut = cut_of(n), rest = n - cut;
  const Array first = block_of(a, 0, cut, 0, cut), last = block_of(a, cut, rest, cut, rest);
  const Array right = block_of(a, 0, cut, cut, rest), below = block_of(a, cut, rest, 0, cut);
  factor_definite(op, first);
  solve_lower(op, right, first, false);
  GPUKIT_STEP(a, mirror(op, below, right));
  subtract_upper(op, last, below, right);
  factor_definite(op, last);
}

/// Matrices [batch, n, n or more] that are reduced by row exchanges, which all columns take part in.
struct Elimination {
  const char* op;
  Array a, pivots, singular;

  /// The columns from `first` on, of which those before are reduced.
  void run(int64_t first, int64_t columns) const {
    const int64_t rows = a.shape(1) - first;
    if (columns <= GPUKIT_STEP(a, lu_panel_columns(a, rows))) {
      const Array exchanged = pivots.narrow(1, first, columns);
      GPUKIT_STEP(a, lu_panel(op, block_of(a, first, rows, first, columns), exchanged, singular, first));
      GPUKIT_STEP(a, exchange_rows(op, a.narrow(1, first, rows), exchanged, first));
      return;
    }
    const int64_t cut = cut_of(columns), next = first + cut, rest = columns - cut;
    run(first, cut);
    const Array right = block_of(a, first, cut, next, rest);
    solve_lower(op, right, block_of(a, first, cut, first, cut), true);
    subtract_product(op, block_of(a, next, rows - cut, next, rest), block_of(a, next, rows - cut, first, cut), right);
    run(next, rest);
  }
};

/// Calls f(elimination, first matrix, matrices) for groups of x's matrices, copied beside `more` columns and not yet
/// reduced.
template <typename F>
void each_group(const char* op, const Array& x, int64_t more, F&& f) {
  const int64_t n = x.shape(1), width = n + more;
  const int64_t group = group_of(x.shape(0), n * width * itemsize(x.dtype()));
  Temporaries temporaries(op);
  const Array a = temporaries.empty({group, n, width}, x.dtype(), x.device());
  const Array pivots = temporaries.empty({group, n}, DType::int32, x.device());
  const Array singular = temporaries.empty({group}, DType::int32, x.device());
  for (int64_t first = 0; first < x.shape(0); first += group) {
    const int64_t count = std::min(group, x.shape(0) - first);
    const Elimination made{op, a.narrow(0, 0, count), pivots.narrow(0, 0, count), singular.narrow(0, 0, count)};
    copy_into(made.a.narrow(2, 0, n), x.narrow(0, first, count));
    fill(made.singular, int64_t{0});
    f(made, first, count);
  }
}

}  // namespace

bool is_blocked(int64_t n) { return n > kUnblocked; }

Array block_of(const Array& a, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return a.narrow(1, row, rows).narrow(2, column, columns);
}

Array as_batch(const Array& x) {
  const int64_t rows = x.shape(-2), columns = x.shape(-1);
  return x.reshape_view({x.size() / (rows * columns), rows, columns});
}

int64_t cut_of(int64_t n) {
  int64_t cut = 1;
  while (2 * cut < n) cut *= 2;
  return cut;
}

int64_t group_of(int64_t batch, int64_t bytes) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  return std::clamp<int64_t>(kBytes / bytes, 1, batch);
}

void solve_lower(const char* op, const Array& b, const Array& lower, bool unit) {
  const int64_t n = b.shape(1);
  if (n <= diagonal_block(itemsize(b.dtype()))) return GPUKIT_STEP(b, solve_block(op, b, lower, unit));
  const int64_t cut = cut_of(n), rest = n - cut;
  const Array first = b.narrow(1, 0, cut), last = b.narrow(1, cut, rest);
  solve_lower(op, first, block_of(lower, 0, cut, 0, cut), unit);
  subtract_product(op, last, block_of(lower, cut, rest, 0, cut), first);
  solve_lower(op, last, block_of(lower, cut, rest, cut, rest), unit);
}

// From the last row up it is a lower triangle.
void solve_upper(const char* op, const Array& b, const Array& upper) {
  solve_lower(op, reversed(b, 1), reversed(reversed(upper, 1), 2), false);
}

void blocked_cholesky(const char* op, const Array& out, const Array& x, bool upper) {
  const Array a = as_batch(out), from = as_batch(x);
  if (upper)
    copy_into(a, from);
  else
    GPUKIT_STEP(a, mirror(op, a, from));
  factor_definite(op, a);
  GPUKIT_STEP(a, finish_cholesky(op, a, upper));
}

void blocked_solve(const char* op, const Array& out, const Array& a, const Array& b) {
  const Array to = as_batch(out), left = as_batch(a), right = b.defined() ? as_batch(b) : Array();
  const int64_t n = to.shape(1), k = to.shape(2);
  each_group(op, left, k, [&](const Elimination& made, int64_t first, int64_t count) {
    const Array factors = made.a.narrow(2, 0, n), sides = made.a.narrow(2, n, k);
    if (right.defined()) {
      copy_into(sides, right.narrow(0, first, count));
    } else {
      fill(sides, int64_t{0});
      fill(diagonal(sides), int64_t{1});
    }
    made.run(0, n);
    solve_lower(op, sides, factors, true);
    solve_upper(op, sides, factors);
    GPUKIT_STEP(to, finish_solve(op, to.narrow(0, first, count), sides, made.singular));
  });
}

void blocked_determinants(const char* op, const Array& det, const Array& sign, const Array& logarithm, const Array& x) {
  const Array from = as_batch(x);
  const auto part = [](const Array& all, int64_t first, int64_t count) {
    return all.defined() ? all.reshape_view({all.size()}).narrow(0, first, count) : all;
  };
  each_group(op, from, 0, [&](const Elimination& made, int64_t first, int64_t count) {
    made.run(0, from.shape(1));
    GPUKIT_STEP(from, blocked_determinant(op, part(det, first, count), part(sign, first, count),
                                          part(logarithm, first, count), made.a, made.pivots));
  });
}

}  // namespace gpukit::linalg
