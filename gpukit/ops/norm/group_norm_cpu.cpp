#include <algorithm>
#include <cmath>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/nonlinear.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/vector_loops.h"
#include "gpukit/ops/norm/group_norm_impl.h"
#include "gpukit/ops/reduce/row_sum.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

template <typename T>
struct Arrays {
  T* out;
  const T *x, *gamma, *beta, *gate, *residual, *alpha;
};

/// Elements that are taken at a time, as numbers that lie side by side.
constexpr int64_t kChunk = 256;

/// In place. `alpha` is read for snake only.
template <typename C>
void activate(const GroupNormParams& p, C* v, const C* alpha, int64_t count) {
  switch (p.activation) {
    case GroupNormActivation::none: return;
    case GroupNormActivation::silu: return silu_all(v, count);
    case GroupNormActivation::leaky_relu:
      for (int64_t i = 0; i < count; ++i) v[i] = leaky_relu_of(v[i], static_cast<C>(p.slope));
      return;
    case GroupNormActivation::snake: {
      C given[kChunk];
      std::copy(v, v + count, given);
      return snake_all(v, given, alpha, count);
    }
  }
}

/// The sum of f(element) over a group: of each channel by a tree, then of the channels.
template <typename T, typename F>
compute_t<T> group_sum(const GroupNormParams& p, const T* x, F&& f) {
  using C = compute_t<T>;
  return row_sum<C>(p.channels, [&](int64_t c) {
    const T* row = x + c * p.x.channel;
    if (p.x.step == 1) return row_sum<C>(p.length, [&](int64_t i) { return f(load(row[i])); });
    return row_sum<C>(p.length, [&](int64_t i) { return f(load(row[i * p.x.step])); });
  });
}

template <typename T>
void normalize(const GroupNormParams& p, const Arrays<T>& a, int64_t norm, double eps) {
  using C = compute_t<T>;
  const auto start = [&](const auto* array, const GroupNormStrides& s) {
    return array == nullptr ? array : array + group_offset(s, p, norm);
  };
  T* const out = a.out + group_offset(p.out, p, norm);
  const T *x = start(a.x, p.x), *gamma = start(a.gamma, p.gamma), *beta = start(a.beta, p.beta);
  const T *gate = start(a.gate, p.gate), *residual = start(a.residual, p.residual), *alpha = start(a.alpha, p.alpha);
  const C count = static_cast<C>(p.channels * p.length);
  const C mean = group_sum(p, x, [](C v) { return v; }) / count;
  const C squares = group_sum(p, x, [mean](C v) { return (v - mean) * (v - mean); });
  const C scale = C(1) / std::sqrt(squares / count + static_cast<C>(eps));
  const C base = p.plus_one ? C(1) : C(0);
  for (int64_t c = 0; c < p.channels; ++c) {
    const auto weight = [&](int64_t i) {
      return gamma == nullptr ? C(1) : base + load(gamma[c * p.gamma.channel + i * p.gamma.step]);
    };
    const auto offset = [&](int64_t i) {
      return beta == nullptr ? C(0) : load(beta[c * p.beta.channel + i * p.beta.step]);
    };
    const T* from = x + c * p.x.channel;
    T* to = out + c * p.out.channel;
    const bool dense = p.gamma.step == 0 && p.beta.step == 0 && p.x.step == 1 && p.out.step == 1 && gate == nullptr;
    const C w = weight(0), b = offset(0);
    if (dense && p.activation == GroupNormActivation::none) {
#pragma GCC ivdep
      for (int64_t i = 0; i < p.length; ++i) to[i] = store<T>((load(from[i]) - mean) * scale * w + b);
      continue;
    }
    C v[kChunk], alphas[kChunk];
    for (int64_t first = 0; first < p.length; first += kChunk) {
      const int64_t count = std::min(kChunk, p.length - first);
      if (alpha != nullptr)
        for (int64_t k = 0; k < count; ++k) alphas[k] = load(alpha[c * p.alpha.channel + (first + k) * p.alpha.step]);
      if (dense)
        for (int64_t k = 0; k < count; ++k) v[k] = (load(from[first + k]) - mean) * scale * w + b;
      else
        for (int64_t k = 0; k < count; ++k)
          v[k] = (load(from[(first + k) * p.x.step]) - mean) * scale * weight(first + k) + offset(first + k);
      activate(p, v, alphas, count);
      if (gate != nullptr)
        for (int64_t k = 0; k < count; ++k)
          v[k] = load(residual[c * p.residual.channel + (first + k) * p.residual.step]) +
                 load(gate[c * p.gate.channel + (first + k) * p.gate.step]) * v[k];
      for (int64_t k = 0; k < count; ++k) to[(first + k) * p.out.step] = store<T>(v[k]);
    }
  }
}

}  // namespace

void group_norm(const GroupNormCall& call) {
  visit_floating(call.x.dtype(), [&]<typename T>() {
    runtime::run_host(call.op, call.x.device(),
                      {write(call.out), read(call.x), read_if(call.gamma), read_if(call.beta), read_if(call.gate),
                       read_if(call.residual), read_if(call.alpha)},
                      [p = call.params, eps = call.eps](void* const* memory) {
                        const auto in = [&](int i) { return static_cast<const T*>(memory[i]); };
                        const Arrays<T> a{static_cast<T*>(memory[0]), in(1), in(2), in(3), in(4), in(5), in(6)};
                        const int64_t grain = std::max<int64_t>(1, 8192 / (p.channels * p.length));
                        parallel_for(p.outer * p.inner * p.groups, grain, [&](int64_t begin, int64_t end) {
                          for (int64_t norm = begin; norm < end; ++norm) normalize(p, a, norm, eps);
                        });
                      });
  });
}

}  // namespace gpukit::cpu
