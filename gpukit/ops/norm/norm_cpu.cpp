#include <cmath>

#include "gpukit/ops/common/cpu.h"
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

template <typename T>
void rmsnorm_row(const Rows<T>& r, compute_t<T> eps) {
  using C = compute_t<T>;
  auto at = [&](int64_t i) { return load(r.x[i * r.step]); };
  const C squares = row_sum<C>(r.width, [&](int64_t i) { return at(i) * at(i); });
  const C scale = C(1) / std::sqrt(squares / C(r.width) + eps);
  for (int64_t i = 0; i < r.width; ++i) {
    const C v = at(i) * scale;
    r.out[i * r.out_step] = store<T>(r.gamma == nullptr ? v : v * load(r.gamma[i * r.gamma_step]));
  }
}

template <typename T>
void layernorm_row(const Rows<T>& r, compute_t<T> eps) {
  using C = compute_t<T>;
  auto at = [&](int64_t i) { return load(r.x[i * r.step]); };
  const C mean = row_sum<C>(r.width, at) / C(r.width);
  const C squares = row_sum<C>(r.width, [&](int64_t i) { return (at(i) - mean) * (at(i) - mean); });
  const C scale = C(1) / std::sqrt(squares / C(r.width) + eps);
  for (int64_t i = 0; i < r.width; ++i) {
    const C v = (at(i) - mean) * scale;
    r.out[i * r.out_step] = store<T>(std::fma(v, load(r.gamma[i * r.gamma_step]), load(r.beta[i * r.beta_step])));
  }
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
                              layernorm_row(r, static_cast<compute_t<T>>(eps));
                            else
                              rmsnorm_row(r, static_cast<compute_t<T>>(eps));
                          }
                        });
                      });
  });
}

}  // namespace gpukit::cpu
