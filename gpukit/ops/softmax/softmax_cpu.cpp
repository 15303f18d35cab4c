#include <cmath>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/rows.h"
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

}  // namespace

void softmax(const Array& out, const Array& input, int axis) {
  const RowParams p =
      plan_rows(input.shape(), input.strides(), out.strides(), axis, itemsize(input.dtype()), false, false).params;
  visit_floating(input.dtype(), [&]<typename T>() {
    runtime::run_host("softmax", input.device(), {write(out), read(input)}, [p](void* const* address) {
      parallel_for(p.rows, std::max<int64_t>(1, 8192 / p.width), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          softmax_row(static_cast<T*>(address[0]) + row_offset(p, p.out, row), p.out_step,
                      static_cast<const T*>(address[1]) + row_offset(p, p.in, row), p.in_step, p.width);
      });
    });
  });
}

}  // namespace gpukit::cpu
