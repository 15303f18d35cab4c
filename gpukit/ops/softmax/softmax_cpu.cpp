#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/vector_math.h"
#include "gpukit/ops/reduce/reduce_loops.h"
#include "gpukit/ops/reduce/row_sum.h"
#include "gpukit/ops/softmax/softmax.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

/// exp(x) of compute types, without branches.
GPUKIT_ALWAYS_INLINE float exp_of(float x) { return static_cast<float>(vector::exp_of<vector::Short>(x)); }
GPUKIT_ALWAYS_INLINE double exp_of(double x) { return vector::exp_of<vector::Full>(x); }

/// The largest of x(0) .. x(width - 1), or NaN where there is one.
template <typename C, typename Value>
GPUKIT_ALWAYS_INLINE C largest(int64_t width, Value&& x) {
  constexpr int kLanes = 32;
  C lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = x(0);
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const C v = x(i + l);
      lanes[l] = lanes[l] >= v || lanes[l] != lanes[l] ? lanes[l] : v;
    }
  for (int l = 0; i + l < width; ++l) {
    const C v = x(i + l);
    lanes[l] = lanes[l] >= v || lanes[l] != lanes[l] ? lanes[l] : v;
  }
  C top = lanes[0];
  for (int l = 1; l < kLanes; ++l) top = top >= lanes[l] || top != top ? top : lanes[l];
  return top;
}

template <typename T, bool kDense>
struct SoftmaxRow {
  GPUKIT_ALWAYS_INLINE static void run(T* out, int64_t out_step, const T* x, int64_t step, int64_t width) {
    using C = compute_t<T>;
    if constexpr (kDense) out_step = step = 1;
    const C top = largest<C>(width, [=](int64_t i) { return load(x[i * step]); });
    if constexpr (std::is_same_v<T, C>) {
      for (int64_t i = 0; i < width; ++i) out[i * out_step] = exp_of(x[i * step] - top);
      const C scale = C(1) / row_sum<C>(width, [=](int64_t i) { return out[i * out_step]; });
      for (int64_t i = 0; i < width; ++i) out[i * out_step] *= scale;
    } else {
      // 16-bit results cannot hold the sum's terms: they are computed twice.
      const C scale = C(1) / row_sum<C>(width, [=](int64_t i) { return exp_of(load(x[i * step]) - top); });
      for (int64_t i = 0; i < width; ++i) out[i * out_step] = store<T>(exp_of(load(x[i * step]) - top) * scale);
    }
  }
};

template <typename C>
struct ColumnSum {
  using Acc = C;
  static C merge(C a, C b) { return a + b; }
};

/// Rows that run across memory, up to kTile of them side by side.
template <typename T>
struct SoftmaxTile {
  GPUKIT_ALWAYS_INLINE static void run(T* out, int64_t out_step, const T* x, int64_t step, int64_t width, int columns) {
    using C = compute_t<T>;
    C top[kTile], scale[kTile];
    for (int c = 0; c < columns; ++c) top[c] = load(x[c]);
    for (int64_t i = 1; i < width; ++i) {
      for (int c = 0; c < columns; ++c) {
        const C v = load(x[i * step + c]);
        top[c] = v > top[c] || v != v ? v : top[c];
      }
    }
    Tile<ColumnSum<C>> sums;
    if constexpr (std::is_same_v<T, C>) {
      for (int64_t i = 0; i < width; ++i)
        for (int c = 0; c < columns; ++c) out[i * out_step + c] = exp_of(x[i * step + c] - top[c]);
      sums = tile_tree<ColumnSum<C>>(out, out_step, 0, width, columns, [](const T& v, int64_t, int) { return v; });
    } else {
      // 16-bit results cannot hold the sum's terms: they are computed twice.
      sums = tile_tree<ColumnSum<C>>(x, step, 0, width, columns,
                                     [&](const T& v, int64_t, int c) { return exp_of(load(v) - top[c]); });
    }
    for (int c = 0; c < columns; ++c) scale[c] = C(1) / sums.column[c];
    for (int64_t i = 0; i < width; ++i)
      for (int c = 0; c < columns; ++c) {
        T& to = out[i * out_step + c];
        if constexpr (std::is_same_v<T, C>)
          to *= scale[c];
        else
          to = store<T>(exp_of(load(x[i * step + c]) - top[c]) * scale[c]);
      }
  }
};

template <typename T>
void softmax_rows(T* out, const T* x, const RowParams& p) {
  parallel_for(p.rows, std::max<int64_t>(1, 8192 / p.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* const to = out + row_offset(p, p.out, row);
      const T* const from = x + row_offset(p, p.in, row);
      if (p.out_step == 1 && p.in_step == 1)
        run_wide<SoftmaxRow<T, true>>(to, p.out_step, from, p.in_step, p.width);
      else
        run_wide<SoftmaxRow<T, false>>(to, p.out_step, from, p.in_step, p.width);
    }
  });
}

template <typename T>
void softmax_columns(T* out, const T* x, const RowParams& p) {
  const int64_t tiles = ceil_div(p.columns, kTile);
  parallel_for(
      p.rows / p.columns * tiles, std::max<int64_t>(1, 8192 / (p.width * kTile)), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t column = task % tiles * kTile;
          const int64_t row = task / tiles * p.columns + column;
          run_wide<SoftmaxTile<T>>(out + row_offset(p, p.out, row), p.out_step, x + row_offset(p, p.in, row), p.in_step,
                                   p.width, static_cast<int>(std::min<int64_t>(kTile, p.columns - column)));
        }
      });
}

}  // namespace

void softmax(const Array& out, const Array& input, int axis) {
  const RowPlan plan =
      plan_rows(input.shape(), input.strides(), out.strides(), axis, itemsize(input.dtype()), false, true);
  const RowParams p = plan.params;
  const bool columns = plan.form == RowForm::columns;
  visit_floating(input.dtype(), [&]<typename T>() {
    runtime::run_host("softmax", input.device(), {write(out), read(input)}, [p, columns](void* const* address) {
      auto* to = static_cast<T*>(address[0]);
      const auto* from = static_cast<const T*>(address[1]);
      if (columns)
        softmax_columns(to, from, p);
      else
        softmax_rows(to, from, p);
    });
  });
}

}  // namespace gpukit::cpu
