#include <cmath>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/reduce/reduce_loops.h"
#include "gpukit/ops/reduce/row_sum.h"
#include "gpukit/ops/softmax/softmax.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

template <typename T>
void softmax_row(T* out, int64_t out_step, const T* x, int64_t step, int64_t width) {
  using C = compute_t<T>;
  C top = load(x[0]);
  for (int64_t i = 1; i < width; ++i) {
    const C v = load(x[i * step]);
    top = v > top || v != v ? v : top;
  }
  if constexpr (std::is_same_v<T, C>) {
    for (int64_t i = 0; i < width; ++i) out[i * out_step] = std::exp(x[i * step] - top);
    const C scale = C(1) / row_sum<C>(width, [=](int64_t i) { return out[i * out_step]; });
    for (int64_t i = 0; i < width; ++i) out[i * out_step] *= scale;
  } else {
    // 16-bit results cannot hold the sum's terms: they are computed twice.
    const C scale = C(1) / row_sum<C>(width, [=](int64_t i) { return std::exp(load(x[i * step]) - top); });
    for (int64_t i = 0; i < width; ++i) out[i * out_step] = store<T>(std::exp(load(x[i * step]) - top) * scale);
  }
}

template <typename C>
struct ColumnSum {
  using Acc = C;
  static C merge(C a, C b) { return a + b; }
};

/// Rows that run across memory, up to kTile of them side by side.
template <typename T>
void softmax_tile(T* out, int64_t out_step, const T* x, int64_t step, int64_t width, int columns) {
  using C = compute_t<T>;
  C top[kTile], scale[kTile];
  for (int c = 0; c < columns; ++c) top[c] = load(x[c]);
  for (int64_t i = 1; i < width; ++i) {
    for (int c = 0; c < columns; ++c) {
      const C v = load(x[i * step + c]);
      top[c] = v > top[c] || v != v ? v : top[c];
    }
  }
  const Tile<ColumnSum<C>> sums = tile_tree<ColumnSum<C>>(
      x, step, 0, width, columns, [&](const T& v, int64_t, int c) { return std::exp(load(v) - top[c]); });
  for (int c = 0; c < columns; ++c) scale[c] = C(1) / sums.column[c];
  for (int64_t i = 0; i < width; ++i)
    for (int c = 0; c < columns; ++c)
      out[i * out_step + c] = store<T>(std::exp(load(x[i * step + c]) - top[c]) * scale[c]);
}

template <typename T>
void softmax_rows(T* out, const T* x, const RowParams& p) {
  parallel_for(p.rows, std::max<int64_t>(1, 8192 / p.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      softmax_row(out + row_offset(p, p.out, row), p.out_step, x + row_offset(p, p.in, row), p.in_step, p.width);
  });
}

template <typename T>
void softmax_columns(T* out, const T* x, const RowParams& p) {
  const int64_t tiles = ceil_div(p.columns, kTile);
  parallel_for(p.rows / p.columns * tiles, std::max<int64_t>(1, 8192 / (p.width * kTile)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t column = task % tiles * kTile;
                   const int64_t row = task / tiles * p.columns + column;
                   softmax_tile(out + row_offset(p, p.out, row), p.out_step, x + row_offset(p, p.in, row), p.in_step,
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
