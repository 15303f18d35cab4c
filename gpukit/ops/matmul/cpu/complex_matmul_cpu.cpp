// A complex product is one of floats: a seen as [m, 2 k], out as [m, 2 n], and b written out as [2 k, 2 n], two rows
// for each of its own: (re, im) and (-im, re). The sums then take their steps in the order of the complex ones.
#include "gpukit/ops/matmul/cpu/complex_matmul.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

constexpr int64_t kMostBytes = 8 << 20;  // of b written out for several batches at a time
constexpr int64_t kGrain = 1 << 14;

/// How the batches of one call are taken.
struct Plan {
  int64_t group;       // batches of one product of floats
  bool shared, dense;  // one b serves all batches; rows of a lie as they are wanted
  int64_t step_a, step_b, step_out;
};

Plan make_plan(const MatmulProblem& s, int64_t part_bytes) {
  const auto a = one_batch_stride(s, s.batch_a), b = one_batch_stride(s, s.batch_b),
             out = one_batch_stride(s, s.batch_out);
  Plan plan{1, s.batches == 1, s.a_k == 1, 0, 0, 0};
  if (s.batches == 1 || !a || !b || !out) return plan;
  plan.shared = *b == 0;
  plan.step_a = *a;
  plan.step_b = *b;
  plan.step_out = *out;
  const int64_t bytes = ((plan.shared ? 0 : 4 * s.k * s.n) + (plan.dense ? 0 : 2 * s.m * s.k)) * part_bytes;
  plan.group = bytes == 0 ? s.batches : std::clamp<int64_t>(kMostBytes / bytes, 1, s.batches);
  return plan;
}

/// Rows [begin, end) of b written out.
template <typename R>
struct WriteOut {
  GPUKIT_ALWAYS_INLINE static void run(R* to, const R* b, const MatmulProblem* s, int64_t begin, int64_t end) {
    const int64_t n = s->n;
    for (int64_t k = begin; k < end; ++k) {
      R* const top = to + 4 * n * k;
      R* const bottom = top + 2 * n;
      const R* const row = b + 2 * k * s->b_k;
      if (s->b_n == 1) {
        for (int64_t j = 0; j < n; ++j) {
          const R re = row[2 * j], im = row[2 * j + 1];
          top[2 * j] = re;
          top[2 * j + 1] = im;
          bottom[2 * j] = -im;
          bottom[2 * j + 1] = re;
        }
      } else {
        for (int64_t j = 0; j < n; ++j) {
          const R re = row[2 * j * s->b_n], im = row[2 * j * s->b_n + 1];
          top[2 * j] = re;
          top[2 * j + 1] = im;
          bottom[2 * j] = -im;
          bottom[2 * j + 1] = re;
        }
      }
    }
  }
};

/// Columns [begin, end) of one row of a by b, whose rows are dense.
template <typename R>
struct OneRow {
  static constexpr int64_t kColumns = 128;
  GPUKIT_ALWAYS_INLINE static void run(R* out, const R* a, const R* b, const MatmulProblem* s, int64_t begin,
                                       int64_t end) {
    for (int64_t column = begin; column < end; column += kColumns) {
      const int64_t width = end - column < kColumns ? end - column : kColumns;
      alignas(64) R re[kColumns] = {}, im[kColumns] = {};
      for (int64_t k = 0; k < s->k; ++k) {
        const R x = a[2 * k * s->a_k], y = a[2 * k * s->a_k + 1];
        const R* const row = b + 2 * (k * s->b_k + column);
        for (int64_t j = 0; j < width; ++j) {
          const R u = row[2 * j], v = row[2 * j + 1];
          re[j] = std::fma(-y, v, std::fma(x, u, re[j]));
          im[j] = std::fma(y, u, std::fma(x, v, im[j]));
        }
      }
      for (int64_t j = 0; j < width; ++j) {
        out[2 * (column + j)] = re[j];
        out[2 * (column + j) + 1] = im[j];
      }
    }
  }
};

template <typename R>
void few_rows(const MatmulProblem& s, R* out, const R* a, const R* b) {
  const int64_t grain = std::max<int64_t>(
      OneRow<R>::kColumns, kGrain / std::max<int64_t>(s.k, 1) / OneRow<R>::kColumns * OneRow<R>::kColumns);
  for (int64_t batch = 0; batch < s.batches; ++batch) {
    const MatmulOffsets at = batch_offsets(s, batch);
    parallel_for(s.n, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < s.m; ++row)
        run_wide<OneRow<R>>(out + 2 * (at.out + row * s.out_m), a + 2 * (at.a + row * s.a_m), b + 2 * at.b, &s, begin,
                            end);
    });
  }
}

/// `room` holds b written out, then rows of a, for a group.
template <typename R>
void by_floats(const MatmulProblem& s, const Plan& plan, R* out, const R* a, const R* b, R* room) {
  R* const rows = room + (plan.shared ? 1 : plan.group) * 4 * s.k * s.n;
  const int64_t b_grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, 4 * s.n));
  const int64_t a_grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, 2 * s.k));
  for (int64_t first = 0; first < s.batches; first += plan.group) {
    const int64_t count = std::min(plan.group, s.batches - first);
    const MatmulOffsets at = batch_offsets(s, first);
    if (first == 0 || !plan.shared) {
      const int64_t copies = plan.shared ? 1 : count;
      parallel_for(copies * s.k, b_grain, [&](int64_t begin, int64_t end) {
        while (begin < end) {
          const int64_t copy = begin / s.k, row = begin % s.k, rows_here = std::min(s.k - row, end - begin);
          run_wide<WriteOut<R>>(room + copy * 4 * s.k * s.n, b + 2 * (at.b + copy * plan.step_b), &s, row,
                                row + rows_here);
          begin += rows_here;
        }
      });
    }
    if (!plan.dense)
      parallel_for(count * s.m, a_grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const R* const from = a + 2 * (at.a + i / s.m * plan.step_a + i % s.m * s.a_m);
          for (int64_t k = 0; k < s.k; ++k) {
            rows[2 * (i * s.k + k)] = from[2 * k * s.a_k];
            rows[2 * (i * s.k + k) + 1] = from[2 * k * s.a_k + 1];
          }
        }
      });
    MatmulProblem real{};
    real.m = s.m;
    real.n = 2 * s.n;
    real.k = 2 * s.k;
    real.a_m = plan.dense ? 2 * s.a_m : 2 * s.k;
    real.a_k = real.b_n = real.out_n = 1;
    real.b_k = 2 * s.n;
    real.out_m = 2 * s.out_m;
    real.batches = count;
    real.batch_rank = 1;
    real.batch_shape[0] = count;
    real.batch_a[0] = plan.dense ? 2 * plan.step_a : 2 * s.m * s.k;
    real.batch_b[0] = plan.shared ? 0 : 4 * s.k * s.n;
    real.batch_out[0] = 2 * plan.step_out;
    const DType part = std::is_same_v<R, float> ? DType::float32 : DType::float64;
    const R* const left = plan.dense ? a + 2 * at.a : rows;
    // Columns are padded to whole registers, rows are not.
    if (constexpr int64_t kFewColumns = 64 / sizeof(R); real.n < kFewColumns && real.m > real.n)
      multiply_floats(part, part, transposed(real), out + 2 * at.out, room, left);
    else
      multiply_floats(part, part, real, out + 2 * at.out, left, room);
  }
}

template <typename R>
void submit(const Array& out, const Array& a, const Array& b, const MatmulProblem& s) {
  const Plan plan = make_plan(s, sizeof(R));
  constexpr int64_t kFewRows = 2;
  if (s.m <= kFewRows && s.b_n == 1) {
    runtime::run_host("matmul", out.device(), {write(out), read(a), read(b)}, [s](void* const* p) {
      few_rows(s, static_cast<R*>(p[0]), static_cast<const R*>(p[1]), static_cast<const R*>(p[2]));
    });
    return;
  }
  const int64_t parts = (plan.shared ? 1 : plan.group) * 4 * s.k * s.n + (plan.dense ? 0 : plan.group * 2 * s.m * s.k);
  const Dims room_shape{std::max<int64_t>(parts, 1)};
  CallWorkspace workspace("matmul", out.device(), workspace_bytes(room_shape, DType::float64));
  const Array room = workspace.take(room_shape, sizeof(R) == 4 ? DType::float32 : DType::float64);
  runtime::run_host("matmul", out.device(), {write(out), read(a), read(b), write(room)}, [s, plan](void* const* p) {
    by_floats(s, plan, static_cast<R*>(p[0]), static_cast<const R*>(p[1]), static_cast<const R*>(p[2]),
              static_cast<R*>(p[3]));
  });
}

}  // namespace

bool complex_matmul(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem) {
  if (problem.out_n != 1 && problem.n != 1) return false;
  if (out.dtype() == DType::complex64)
    submit<float>(out, a, b, problem);
  else
    submit<double>(out, a, b, problem);
  return true;
}

}  // namespace gpukit::cpu
