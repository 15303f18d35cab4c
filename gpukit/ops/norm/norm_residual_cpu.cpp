#include <algorithm>
#include <cmath>
#include <vector>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/norm/norm_residual.h"
#include "gpukit/ops/reduce/row_sum.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

struct Work {
  int64_t rows, width, out, sum, x, residual;
  double eps;
};

template <typename T>
void normalize_row(const Work& w, T* out, T* sum, const T* x, const T* residual, const T* gamma, const T* beta,
                   compute_t<T>* s) {
  using C = compute_t<T>;
  for (int64_t i = 0; i < w.width; ++i) s[i] = load(store<T>(load(x[i]) + load(residual[i])));
  const C count = static_cast<C>(w.width), eps = static_cast<C>(w.eps);
  C mean = 0;
  if (beta != nullptr) mean = row_sum<C>(w.width, [&](int64_t i) { return s[i]; }) / count;
  const C squares = row_sum<C>(w.width, [&](int64_t i) { return (s[i] - mean) * (s[i] - mean); });
  const C scale = C(1) / std::sqrt(squares / count + eps);
  if (sum != nullptr)
    for (int64_t i = 0; i < w.width; ++i) sum[i] = store<T>(s[i]);
  if (beta == nullptr)
    for (int64_t i = 0; i < w.width; ++i) out[i] = store<T>(s[i] * scale * load(gamma[i]));
  else
    for (int64_t i = 0; i < w.width; ++i)
      out[i] = store<T>(std::fma((s[i] - mean) * scale, load(gamma[i]), load(beta[i])));
}

}  // namespace

void norm_residual(const ResidualRows& r, double eps) {
  const Work w{r.x.shape()[0],
               r.x.shape()[1],
               r.out.strides()[0],
               r.sum.defined() ? r.sum.strides()[0] : 0,
               r.x.strides()[0],
               r.residual.strides()[0],
               eps};
  const memory::Use none{};
  visit_floating(r.x.dtype(), [&]<typename T>() {
    runtime::run_host(r.beta.defined() ? "layernorm_residual" : "rmsnorm_residual", r.x.device(),
                      {write(r.out), r.sum.defined() ? write(r.sum) : none, read(r.x), read(r.residual), read(r.gamma),
                       r.beta.defined() ? read(r.beta) : none},
                      [w](void* const* p) {
                        parallel_for(w.rows, std::max<int64_t>(1, 8192 / w.width), [&](int64_t begin, int64_t end) {
                          std::vector<compute_t<T>> s(static_cast<size_t>(w.width));
                          for (int64_t row = begin; row < end; ++row)
                            normalize_row<T>(w, static_cast<T*>(p[0]) + row * w.out,
                                             p[1] == nullptr ? nullptr : static_cast<T*>(p[1]) + row * w.sum,
                                             static_cast<const T*>(p[2]) + row * w.x,
                                             static_cast<const T*>(p[3]) + row * w.residual,
                                             static_cast<const T*>(p[4]), static_cast<const T*>(p[5]), s.data());
                        });
                      });
  });
}

}  // namespace gpukit::cpu
