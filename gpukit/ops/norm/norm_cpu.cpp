#include <cmath>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/norm/norm.h"
#include "gpukit/ops/reduce/row_sum.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

template <typename T>
struct Rows {
  T* out;
  const T *x, *gamma, *beta;
  int64_t out_step, step, gamma_step, beta_step, width;
};

/// kDense: all steps are 1.
template <typename T, bool kDense>
struct RmsNormRow {
  GPUKIT_ALWAYS_INLINE static void run(const Rows<T>* row, compute_t<T> eps) {
    using C = compute_t<T>;
    const Rows<T> r = *row;
    const int64_t step = kDense ? 1 : r.step, out_step = kDense ? 1 : r.out_step,
                  gamma_step = kDense ? 1 : r.gamma_step;
    auto at = [&](int64_t i) { return load(r.x[i * step]); };
    const C squares = row_sum<C>(r.width, [&](int64_t i) { return at(i) * at(i); });
    const C scale = C(1) / std::sqrt(squares / C(r.width) + eps);
    if (r.gamma == nullptr)
      for (int64_t i = 0; i < r.width; ++i) r.out[i * out_step] = store<T>(at(i) * scale);
    else
      for (int64_t i = 0; i < r.width; ++i)
        r.out[i * out_step] = store<T>(at(i) * scale * load(r.gamma[i * gamma_step]));
  }
};

template <typename T, bool kDense>
struct LayerNormRow {
  GPUKIT_ALWAYS_INLINE static void run(const Rows<T>* row, compute_t<T> eps) {
    using C = compute_t<T>;
    const Rows<T> r = *row;
    const int64_t step = kDense ? 1 : r.step, out_step = kDense ? 1 : r.out_step,
                  gamma_step = kDense ? 1 : r.gamma_step, beta_step = kDense ? 1 : r.beta_step;
    auto at = [&](int64_t i) { return load(r.x[i * step]); };
    const C mean = row_sum<C>(r.width, at) / C(r.width);
    const C squares = row_sum<C>(r.width, [&](int64_t i) { return (at(i) - mean) * (at(i) - mean); });
    const C scale = C(1) / std::sqrt(squares / C(r.width) + eps);
    for (int64_t i = 0; i < r.width; ++i) {
      const C v = (at(i) - mean) * scale;
      r.out[i * out_step] = store<T>(std::fma(v, load(r.gamma[i * gamma_step]), load(r.beta[i * beta_step])));
    }
  }
};

template <template <typename, bool> typename Loop, typename T>
void run_row(const Rows<T>& r, double eps) {
  const bool dense = r.out_step == 1 && r.step == 1 && (r.gamma == nullptr || r.gamma_step == 1) &&
                     (r.beta == nullptr || r.beta_step == 1);
  if (dense)
    run_wide<Loop<T, true>>(&r, static_cast<compute_t<T>>(eps));
  else
    run_wide<Loop<T, false>>(&r, static_cast<compute_t<T>>(eps));
}

}  // namespace

void normalize(const Array& out, const Array& input, const Array* gamma, const Array* beta, double eps) {
  const RowParams p =
      plan_rows(input.shape(), input.strides(), out.strides(), input.ndim() - 1, itemsize(input.dtype()), false, false)
          .params;
  const int64_t gamma_step = gamma != nullptr ? gamma->strides()[0] : 0;
  const int64_t beta_step = beta != nullptr ? beta->strides()[0] : 0;
  const bool shifted = beta != nullptr;
  visit_floating(input.dtype(), [&]<typename T>() {
    runtime::run_host(shifted            ? "layernorm"
                      : gamma != nullptr ? "rmsnorm"
                                         : "l2norm",
                      input.device(),
                      {write(out), read(input), gamma != nullptr ? read(*gamma) : memory::Use{},
                       shifted ? read(*beta) : memory::Use{}},
                      [=](void* const* address) {
                        parallel_for(p.rows, std::max<int64_t>(1, 8192 / p.width), [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) {
                            const Rows<T> r{static_cast<T*>(address[0]) + row_offset(p, p.out, row),
                                            static_cast<const T*>(address[1]) + row_offset(p, p.in, row),
                                            static_cast<const T*>(address[2]),
                                            static_cast<const T*>(address[3]),
                                            p.out_step,
                                            p.in_step,
                                            gamma_step,
                                            beta_step,
                                            p.width};
                            if (shifted)
                              run_row<LayerNormRow>(r, eps);
                            else
                              run_row<RmsNormRow>(r, eps);
                          }
                        });
                      });
  });
}

}  // namespace gpukit::cpu
