#include <algorithm>
#include <cmath>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/nonlinear.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/recurrent/scan_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

/// One channel of one item. The state is read before it is written.
template <typename T>
void convolve(const CausalConvParams& p, T* out, const T* x, const T* weight, const T* bias, T* state) {
  using C = compute_t<T>;
  const int past = p.taps - 1;
  C w[kMostTaps], recent[kMostTaps];  // the last inputs, the newest at [past]
  for (int j = 0; j < p.taps; ++j) w[j] = load(weight[j * p.w_tap]);
  for (int j = 0; j < past; ++j) recent[j + 1] = state == nullptr ? C(0) : load(state[j * p.state.step]);
  for (int64_t t = 0; t < p.length; ++t) {
    for (int j = 0; j < past; ++j) recent[j] = recent[j + 1];
    recent[past] = load(x[t * p.x.step]);
    C sum = 0;
    for (int j = 0; j < p.taps; ++j) sum += w[j] * recent[j];
    if (bias != nullptr) sum += load(*bias);
    out[t * p.out.step] = store<T>(p.silu ? silu_of(sum) : sum);
  }
  if (state != nullptr)
    for (int j = 0; j < past; ++j) state[j * p.state.step] = store<T>(recent[j + 1]);
}

template <typename T>
struct ScanArrays {
  using C = compute_t<T>;
  T* out;
  C* state;
  const T *x, *delta;
  const C* a;
  const T *b, *c, *d, *z, *delta_bias;
};

template <typename T>
void scan_channel(const SelectiveScanParams& p, const ScanArrays<T>& s, int64_t item, int64_t channel) {
  using C = compute_t<T>;
  const auto start = [&](auto* array, const ScanStrides& strides) {
    return array == nullptr ? array : array + item * strides.batch + channel * strides.channel;
  };
  const T *x = start(s.x, p.x), *delta = start(s.delta, p.delta), *z = start(s.z, p.z);
  const T *b = s.b + item * p.b.batch, *c = s.c + item * p.c.batch;
  T* const out = start(s.out, p.out);
  C* const state = start(s.state, p.state);
  const C bias = s.delta_bias == nullptr ? C(0) : load(s.delta_bias[channel * p.delta_bias]);
  const C skip = s.d == nullptr ? C(0) : load(s.d[channel * p.d]);
  C a[kMostStates], h[kMostStates];
  for (int n = 0; n < p.states; ++n) {
    a[n] = s.a[channel * p.a_channel + n * p.a_state];
    h[n] = state == nullptr ? C(0) : state[n * p.state.step];
  }
  for (int64_t t = 0; t < p.length; ++t) {
    const C input = load(x[t * p.x.step]);
    C step = load(delta[t * p.delta.step]) + bias;
    if (p.softplus && step <= C(20)) step = std::log1p(std::exp(step));
    C sum = 0;
    for (int n = 0; n < p.states; ++n) {
      h[n] = std::exp(step * a[n]) * h[n] + step * load(b[n * p.b.channel + t * p.b.step]) * input;
      sum += h[n] * load(c[n * p.c.channel + t * p.c.step]);
    }
    sum += skip * input;
    if (z != nullptr) sum *= silu_of(load(z[t * p.z.step]));
    out[t * p.out.step] = store<T>(sum);
  }
  if (state != nullptr)
    for (int n = 0; n < p.states; ++n) state[n * p.state.step] = h[n];
}

}  // namespace

void causal_conv1d(const CausalConvCall& call) {
  visit_floating(call.x.dtype(), [&]<typename T>() {
    runtime::run_host("causal_conv1d", call.x.device(),
                      {write(call.out), read(call.x), read(call.weight), read_if(call.bias), write_if(call.state)},
                      [p = call.params](void* const* memory) {
                        const auto in = [&](int i) { return static_cast<const T*>(memory[i]); };
                        const int64_t grain = std::max<int64_t>(1, 8192 / p.length);
                        parallel_for(p.batch * p.channels, grain, [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end && work_wanted(); ++i) {
                            const int64_t item = i / p.channels, channel = i % p.channels;
                            const auto at = [&](const ScanStrides& s) { return item * s.batch + channel * s.channel; };
                            T* state = static_cast<T*>(memory[4]);
                            convolve(p, static_cast<T*>(memory[0]) + at(p.out), in(1) + at(p.x),
                                     in(2) + channel * p.w_channel,
                                     in(3) == nullptr ? nullptr : in(3) + channel * p.bias,
                                     state == nullptr ? nullptr : state + at(p.state));
                          }
                        });
                      });
  });
}

void selective_scan(const SelectiveScanCall& call) {
  visit_floating(call.x.dtype(), [&]<typename T>() {
    using C = compute_t<T>;
    runtime::run_host("selective_scan", call.x.device(),
                      {write(call.out), write_if(call.state), read(call.x), read(call.delta), read(call.a),
                       read(call.b), read(call.c), read_if(call.d), read_if(call.z), read_if(call.delta_bias)},
                      [p = call.params](void* const* memory) {
                        const auto in = [&](int i) { return static_cast<const T*>(memory[i]); };
                        const ScanArrays<T> s{static_cast<T*>(memory[0]),
                                              static_cast<C*>(memory[1]),
                                              in(2),
                                              in(3),
                                              static_cast<const C*>(memory[4]),
                                              in(5),
                                              in(6),
                                              in(7),
                                              in(8),
                                              in(9)};
                        const int64_t grain = std::max<int64_t>(1, 2048 / (p.length * p.states));
                        parallel_for(p.batch * p.channels, grain, [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end && work_wanted(); ++i)
                            scan_channel(p, s, i / p.channels, i % p.channels);
                        });
                      });
  });
}

}  // namespace gpukit::cpu
