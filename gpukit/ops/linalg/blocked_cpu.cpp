// The steps of blocked LU and Cholesky factorisations on the CPU, in the precision of the input.
#include "gpukit/ops/linalg/blocked_cpu.h"

#include <algorithm>

#include "gpukit/ops/linalg/factor.cuh"

namespace gpukit::cpu {

namespace {

using namespace linalg;

template <typename W>
struct LuPanel {
  GPUKIT_ALWAYS_INLINE static void run(W* a, int32_t* pivots, int32_t* singular, const StepParams* p) {
    const int64_t rows = p->rows, columns = p->columns, pitch = p->a.row;
    for (int64_t c = 0; c < columns; ++c) {
      Real<W> most;
      const int64_t best = pivot_row(a, pitch, rows, c, most);
      W* const above = a + c * pitch;
      pivots[c] = static_cast<int32_t>(p->flag + best);
      if (best != c) std::swap_ranges(above, above + columns, a + best * pitch);
      if (most == Real<W>(0)) {
        *singular = 1;
        continue;
      }
      for (int64_t i = c + 1; i < rows; ++i) {
        W* const line = a + i * pitch;
        line[c] = line[c] / above[c];
        take_row(line + c + 1, above + c + 1, line[c], columns - c - 1);
      }
    }
  }
};

template <typename W>
struct SolveBlock {
  GPUKIT_ALWAYS_INLINE static void run(W* b, const W* lower, const StepParams* p, int64_t columns) {
    for (int64_t i = 0; i < p->rows; ++i) {
      W* const solved = b + i * p->a.row;
      const W* const row = lower + i * p->b.row;
      for (int64_t k = 0; k < i; ++k) take_row(solved, b + k * p->a.row, row[k * p->b.column], columns);
      if (p->flag) continue;
      const W diagonal = row[i * p->b.column];
      for (int64_t j = 0; j < columns; ++j) solved[j] = solved[j] / diagonal;
    }
  }
};

template <typename W>
struct CholeskyBlock {
  GPUKIT_ALWAYS_INLINE static void run(W* a, const StepParams* p) {
    const int64_t n = p->rows, pitch = p->a.row;
    for (int64_t k = 0; k < n; ++k) {
      W* const row = a + k * pitch;
      const Real<W> pivot = real_part(row[k]);
      if (!(pivot > Real<W>(0)) || pivot - pivot != Real<W>(0)) {
        for (int64_t i = 0; i < n; ++i) std::fill_n(a + i * pitch, n, not_a_number<W>());
        return;
      }
      const Real<W> diagonal = root(pivot), inverse = Real<W>(1) / diagonal;
      row[k] = of_real<W>(diagonal);
      for (int64_t j = k + 1; j < n; ++j) row[j] = scaled(row[j], inverse);
      for (int64_t i = k + 1; i < n; ++i) take_row(a + i * pitch + i, row + i, conjugate(row[i]), n - i);
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < i; ++j) a[i * pitch + j] = conjugate(a[j * pitch + i]);
  }
};

}  // namespace

int64_t lu_panel_columns(const Array&, int64_t) { return kPanelColumns; }

void lu_panel(const char* op, const Array& panel, const Array& pivots, const Array& singular, int64_t first) {
  StepParams p = step_params(panel, first);
  p.vector = vector_stride(pivots);
  submit(op, panel, {write(panel), write(pivots), write(singular)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_batch(p, [&](int64_t i) {
      run_wide<LuPanel<W>>(matrix<W>(at[0], p.a, i), static_cast<int32_t*>(at[1]) + i * p.vector,
                           static_cast<int32_t*>(at[2]) + i, &p);
    });
  });
}

void exchange_rows(const char* op, const Array& a, const Array& pivots, int64_t first) {
  StepParams p = step_params(a, first);
  p.rows = pivots.shape(1);
  p.vector = vector_stride(pivots);
  submit(op, a, {write(a), read(pivots)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_tile(p, [&](int64_t i, int64_t begin, int64_t columns) {
      W* const rows = matrix<W>(at[0], p.a, i);
      const int32_t* const with = static_cast<const int32_t*>(at[1]) + i * p.vector;
      const int64_t end = begin + columns, panel = p.flag;
      for (int64_t k = 0; k < p.rows; ++k) {
        if (with[k] == panel + k) continue;
        W* const upper = rows + k * p.a.row;
        W* const lower = rows + (with[k] - panel) * p.a.row;
        const auto swap = [&](int64_t from, int64_t to) {
          if (from < to) std::swap_ranges(upper + from, upper + to, lower + from);
        };
        swap(begin, std::min(end, panel));
        swap(std::max(begin, panel + p.rows), end);
      }
    });
  });
}

void solve_block(const char* op, const Array& b, const Array& lower, bool unit) {
  const StepParams p = step_params(b, lower, unit);
  submit(op, b, {write(b), read(lower)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_tile(p, [&](int64_t i, int64_t begin, int64_t columns) {
      run_wide<SolveBlock<W>>(matrix<W>(at[0], p.a, i) + begin, static_cast<const W*>(matrix<W>(at[1], p.b, i)), &p,
                              columns);
    });
  });
}

void cholesky_block(const char* op, const Array& a) {
  const StepParams p = step_params(a);
  submit(op, a, {write(a)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_batch(p, [&](int64_t i) { run_wide<CholeskyBlock<W>>(matrix<W>(at[0], p.a, i), &p); });
  });
}

void mirror(const char* op, const Array& to, const Array& from) {
  const StepParams p = step_params(to, from);
  submit(op, to, {write(to), read(from)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    constexpr int64_t kSide = 32;
    each_tile(p, [&](int64_t i, int64_t begin, int64_t columns) {
      W* const y = matrix<W>(at[0], p.a, i);
      const W* const x = matrix<W>(at[1], p.b, i);
      for (int64_t row = 0; row < p.rows; row += kSide)
        for (int64_t column = begin; column < begin + columns; ++column)
          for (int64_t r = row; r < std::min(row + kSide, p.rows); ++r)
            y[r * p.a.row + column * p.a.column] = conjugate(x[column * p.b.row + r * p.b.column]);
    });
  });
}

void finish_cholesky(const char* op, const Array& a, bool upper) {
  const StepParams p = step_params(a, upper);
  submit(op, a, {write(a)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    const int64_t n = p.rows;
    each_batch(p, [&](int64_t i) {
      W* const x = matrix<W>(at[0], p.a, i);
      const Real<W> last = real_part(x[(n - 1) * (p.a.row + 1)]);
      for (int64_t row = 0; row < n; ++row) {
        W* const line = x + row * p.a.row;
        if (last != last)
          std::fill_n(line, n, not_a_number<W>());
        else if (p.flag)
          std::fill_n(line, row, of_real<W>(0));
        else
          std::fill_n(line + row + 1, n - row - 1, of_real<W>(0));
      }
    });
  });
}

void finish_solve(const char* op, const Array& out, const Array& x, const Array& singular) {
  const StepParams p = step_params(out, x);
  submit(op, x, {write(out), read(x), read(singular)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_row(p, [&](int64_t i, int64_t row) {
      W* const to = matrix<W>(at[0], p.a, i) + row * p.a.row;
      if (static_cast<const int32_t*>(at[2])[i])
        std::fill_n(to, p.columns, not_a_number<W>());
      else
        std::copy_n(matrix<W>(at[1], p.b, i) + row * p.b.row, p.columns, to);
    });
  });
}

void blocked_determinant(const char* op, const Array& det, const Array& sign, const Array& logarithm, const Array& a,
                         const Array& pivots) {
  StepParams p = step_params(a);
  p.vector = vector_stride(pivots);
  const bool whole = det.defined();
  const auto made = [p, whole](auto zero, void* const* at) {
    using W = decltype(zero);
    each_batch(p, [&](int64_t i) {
      const W* const x = matrix<W>(at[0], p.a, i);
      const int32_t* const with = static_cast<const int32_t*>(at[1]) + i * p.vector;
      Determinant<W> result;
      for (int64_t k = 0; k < p.rows; ++k) {
        if (with[k] != k) result.turn();
        result.take(x[k * (p.a.row + 1)]);
      }
      W* const none = nullptr;
      if (whole)
        result.store(static_cast<W*>(at[2]) + i, none, static_cast<Real<W>*>(nullptr));
      else
        result.store(none, static_cast<W*>(at[2]) + i, static_cast<Real<W>*>(at[3]) + i);
    });
  };
  if (whole)
    submit(op, a, {read(a), read(pivots), write(det)}, made);
  else
    submit(op, a, {read(a), read(pivots), write(sign), write(logarithm)}, made);
}

}  // namespace gpukit::cpu
