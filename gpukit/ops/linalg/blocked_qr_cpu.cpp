// The steps of blocked QR factorisations on the CPU, in the precision of the input.
#include <algorithm>

#include "gpukit/ops/linalg/blocked_cpu.h"
#include "gpukit/ops/linalg/orthogonal.cuh"

namespace gpukit::cpu {

namespace {

using namespace linalg;

template <typename W>
struct QrPanel {
  GPUKIT_ALWAYS_INLINE static void run(W* a, W* tau, const StepParams* p) {
    using R = Real<W>;
    const int64_t rows = p->rows, columns = p->columns, pitch = p->a.row;
    W times[kPanelColumns];
    for (int64_t c = 0; c < columns; ++c) {
      W* const above = a + c * pitch;
      std::fill_n(times, columns, of_real<W>(0));
      for (int64_t i = c + 1; i < rows; ++i) {
        const W* const line = a + i * pitch;
        take_row(times + c, line + c, -conjugate(line[c]), columns - c);
      }
      const W alpha = above[c];
      const R below = real_part(times[c]);
      tau[c] = of_real<W>(0);
      if (below == R(0) && imag_part(alpha) == R(0)) continue;
      const R norm = root(square_of(alpha) + below);
      const R beta = real_part(alpha) < R(0) ? norm : -norm;
      tau[c] = scaled(of_real<W>(beta) - alpha, R(1) / beta);
      const W inverse = of_real<W>(1) / (alpha - of_real<W>(beta));
      for (int64_t j = c + 1; j < columns; ++j) {
        const W taken = conjugate(tau[c]) * (above[j] + conjugate(inverse) * times[j]);
        above[j] = above[j] - taken;
        times[j] = inverse * taken;
      }
      above[c] = of_real<W>(beta);
      for (int64_t i = c + 1; i < rows; ++i) {
        W* const line = a + i * pitch;
        take_row(line + c + 1, times + c + 1, line[c], columns - c - 1);
        line[c] = line[c] * inverse;
      }
    }
  }
};

}  // namespace

int64_t qr_panel_columns(const Array&, int64_t) { return kPanelColumns; }

void range_parts(const char* op, const Array& parts, const Array& x) {
  const StepParams p = step_params(x, x);
  submit(op, x, {write(parts), read(x)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_batch(p, [&](int64_t i) {
      auto* const to = static_cast<Real<W>*>(at[0]) + i * kRangeParts;
      std::fill_n(to, kRangeParts, Real<W>(0));
      for (int64_t row = 0; row < p.rows; ++row) {
        const W* const line = matrix<W>(at[1], p.b, i) + row * p.b.row;
        for (int64_t j = 0; j < p.columns; ++j) to[0] = larger_part<W>(to[0], line[j * p.b.column]);
      }
    });
  });
}

void qr_load(const char* op, const Array& a, const Array& x, const Array& parts) {
  const StepParams p = step_params(a, x, x.shape(1));
  submit(op, x, {write(a), read(x), read(parts)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_row(p, [&](int64_t i, int64_t row) {
      W* const to = matrix<W>(at[0], p.a, i) + row * p.a.row;
      const W* const from = matrix<W>(at[1], p.b, i) + row * p.b.row;
      const Real<W> scale = scale_for(static_cast<const Real<W>*>(at[2])[i * kRangeParts]);
      for (int64_t j = 0; j < p.columns; ++j)
        to[j] = row < p.flag ? scaled(from[j * p.b.column], scale) : of_real<W>(0);
    });
  });
}

void qr_panel(const char* op, const Array& panel, const Array& tau) {
  StepParams p = step_params(panel);
  p.vector = vector_stride(tau);
  submit(op, panel, {write(panel), write(tau)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_batch(p, [&](int64_t i) {
      run_wide<QrPanel<W>>(matrix<W>(at[0], p.a, i), static_cast<W*>(at[1]) + i * p.vector, &p);
    });
  });
}

void reflectors(const char* op, const Array& v, const Array& panel, const Array& tau, int64_t offset) {
  StepParams p = step_params(v, panel, offset);
  p.vector = vector_stride(tau);
  submit(op, v, {write(v), read(panel), read(tau)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_row(p, [&](int64_t i, int64_t row) {
      const int64_t inside = row - p.flag;
      W* const to = matrix<W>(at[0], p.a, i) + row * p.a.row;
      const W* const from = matrix<W>(at[1], p.b, i) + inside * p.b.row;
      const W* const factors = static_cast<const W*>(at[2]) + i * p.vector;
      for (int64_t j = 0; j < p.columns; ++j) {
        const bool none = j > inside || square_of(factors[j]) == Real<W>(0);
        to[j] = none ? of_real<W>(0) : j == inside ? of_real<W>(1) : from[j];
      }
    });
  });
}

void set_factors(const char* op, const Array& a, const Array& tau, bool conjugates) {
  StepParams p = step_params(a, conjugates);
  p.vector = vector_stride(tau);
  submit(op, a, {write(a), read(tau)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    each_batch(p, [&](int64_t i) {
      for (int64_t k = 0; k < p.rows; ++k) {
        const W factor = static_cast<const W*>(at[1])[i * p.vector + k];
        W value = of_real<W>(1);
        if (square_of(factor) != Real<W>(0)) value = value / factor;
        matrix<W>(at[0], p.a, i)[k * (p.a.row + 1)] = p.flag ? conjugate(value) : value;
      }
    });
  });
}

void finish_qr(const char* op, const Array& out, const Array& a, const Array& parts, bool upper) {
  const StepParams p = step_params(out, a, upper);
  submit(op, a, {write(out), read(a), read(parts)}, [p](auto zero, void* const* at) {
    using W = decltype(zero);
    using R = Real<W>;
    each_row(p, [&](int64_t i, int64_t row) {
      W* const to = matrix<W>(at[0], p.a, i) + row * p.a.row;
      const W* const from = matrix<W>(at[1], p.b, i) + row * p.b.row;
      const R most = static_cast<const R*>(at[2])[i * kRangeParts], back = R(1) / scale_for(most);
      const bool finite = most - most == R(0);
      for (int64_t j = 0; j < p.columns; ++j) {
        const W value = p.flag ? scaled(from[j], back) : from[j];
        to[j] = p.flag && j < row ? of_real<W>(0) : finite ? value : not_a_number<W>();
      }
    });
  });
}

}  // namespace gpukit::cpu
