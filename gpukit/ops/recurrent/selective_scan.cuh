// selective_scan of scan.h: time goes on step by step, so that a sequence may be cut anywhere.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/recurrent/scan_params.cuh"

namespace gpukit {

GPUKIT_DEVICE float scan_step(float a, float b, float sum) { return __fmaf_rn(a, b, sum); }
GPUKIT_DEVICE double scan_step(double a, double b, double sum) { return __fma_rn(a, b, sum); }

/// log(1 + exp(x)) = max(x, 0) + 2 atanh(e / (2 + e)) for e = exp(-|x|): the argument is at most 1 / 3.
GPUKIT_DEVICE float softplus_of(float x) {
  const float e = exp2_normal(-fabsf(x) * kLog2E), u = e * reciprocal_normal(2.0f + e), s = u * u;
  float p = fmaf(s, 1.0f / 13.0f, 1.0f / 11.0f);
  p = fmaf(p, s, 1.0f / 9.0f);
  p = fmaf(p, s, 1.0f / 7.0f);
  p = fmaf(p, s, 1.0f / 5.0f);
  p = fmaf(p, s, 1.0f / 3.0f);
  return fmaxf(x, 0.0f) + 2.0f * fmaf(p * s, u, u);
}
GPUKIT_DEVICE double softplus_of(double x) { return x <= 20.0 ? log1p(exp(x)) : x; }
/// exp(step rate): of floats a power of 2, whose rate has the factor.
GPUKIT_DEVICE float scan_rate(float a) { return a * kLog2E; }
GPUKIT_DEVICE double scan_rate(double a) { return a; }
GPUKIT_DEVICE float decay(float step, float rate) { return exp2_normal(step * rate); }
GPUKIT_DEVICE double decay(double step, double rate) { return exp(step * rate); }

// selective_scan: eight lanes take one channel of one item through time, each with kStates neighbouring states in
// registers. A block has 4 kStates channels of an item, and turns of 32 steps: of these each lane fetches four for its
// channel, and the block b and c. The sum over states is that of each lane in order, then of lanes 4, 2 and 1 apart.
template <typename T, int kStates>
struct ScanTurn {
  static constexpr int kLanes = 8, kSteps = 32, kQuads = kSteps / 4, kThreads = 32 * kStates;
  static constexpr int kRow = kLanes * kStates + (kStates < 4 ? kStates : 4);  // of b or c, in shared memory
  static constexpr int kFetched = 2 * kLanes * kStates * kQuads / kThreads;    // quads of b and c a thread
  static constexpr int kChannels = kThreads / kLanes, kOfWarp = 32 / kLanes;

  /// Four steps of a row that begins at `row`, zeros from `count` on.
  static GPUKIT_DEVICE Vec<T, 4> quad(const T* row, int64_t step, int64_t at, int64_t count) {
    Vec<T, 4> q{};
    const T* const from = row + at * step;
    if (at + 4 <= count && step == 1 && reinterpret_cast<uint64_t>(from) % (4 * sizeof(T)) == 0)
      return load_vec<T, 4>(from);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (at + e < count) q.v[e] = from[e * step];
    return q;
  }
};

/// The sums of eight steps are traded among eight lanes: lane l of them gets the sum of step l.
GPUKIT_DEVICE float trade_steps(float (&v)[8]) {
#pragma unroll
  for (int mask = 4; mask > 0; mask /= 2) {
    const bool upper = (threadIdx.x & mask) != 0;
#pragma unroll
    for (int i = 0; i < mask; ++i) {
      const float keep = upper ? v[i + mask] : v[i], give = upper ? v[i] : v[i + mask];
      v[i] = keep + __shfl_xor_sync(kAllLanes, give, mask);
    }
  }
  return v[0];
}

/// Step and step times input of one step of a channel.
struct alignas(8) ScanInput {
  float step, enters;
};

/// Eight steps: h goes on, and lane l gets the sum of step l.
template <int kStates, bool kAll>
GPUKIT_DEVICE float scan_steps(float (&h)[kStates], const float (&rate)[kStates], const ScanInput* input,
                               const float* b, const float* c, int row, int count) {
  constexpr int kWide = kStates < 4 ? kStates : 4;
  float sums[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sums[i] = 0.0f;
    if (!kAll && i >= count) continue;
    const ScanInput now = input[i];
#pragma unroll
    for (int n = 0; n < kStates; n += kWide) {
      const Vec<float, kWide> in = load_vec<float, kWide>(b + i * row + n);
      const Vec<float, kWide> back = load_vec<float, kWide>(c + i * row + n);
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        h[n + k] = scan_step(decay(now.step, rate[n + k]), h[n + k], now.enters * in.v[k]);
        sums[i] = scan_step(h[n + k], back.v[k], sums[i]);
      }
    }
  }
  return trade_steps(sums);
}

GPUKIT_DEVICE float scan_silu(float z, float) { return Silu::of(z); }
template <typename T>
GPUKIT_DEVICE float scan_silu(float z, T) {
  return silu_short(z);
}

template <typename T, int kStates>
__global__ void __launch_bounds__(ScanTurn<T, kStates>::kThreads, 1)
    selective_scan(T* out, float* state, const T* x, const T* delta, const float* a, const T* b, const T* c, const T* d,
                   const T* z, const T* delta_bias, const __grid_constant__ SelectiveScanParams p) {
  using Turn = ScanTurn<T, kStates>;
  constexpr int kSteps = Turn::kSteps, kRow = Turn::kRow, kFetched = Turn::kFetched;
  constexpr int kInputs = kSteps + 2, kSums = kSteps + 4;  // of a channel: others begin in other banks
  __shared__ __align__(16) float shared_rows[2][2][kSteps * kRow];
  __shared__ __align__(16) ScanInput shared_inputs[Turn::kChannels][kInputs];
  __shared__ __align__(16) float shared_sums[Turn::kChannels][kSums];
  const int64_t blocks = (p.channels + Turn::kChannels - 1) / Turn::kChannels;
  const int64_t item = blockIdx.x / blocks, first = blockIdx.x % blocks * Turn::kChannels;
  const int lane = threadIdx.x % Turn::kLanes, place = threadIdx.x / Turn::kLanes;
  // Lanes past the last channel go along with it, and write nothing.
  const bool mine = first + place < p.channels;
  const int64_t channel = mine ? first + place : p.channels - 1;
  x += item * p.x.batch + channel * p.x.channel;
  delta += item * p.delta.batch + channel * p.delta.channel;
  out += item * p.out.batch + channel * p.out.channel;
  if (z != nullptr) z += item * p.z.batch + channel * p.z.channel;
  if (state != nullptr) state += item * p.state.batch + channel * p.state.channel;
  b += item * p.b.batch;
  c += item * p.c.batch;
  const float bias = delta_bias == nullptr ? 0.0f : load(delta_bias[channel * p.delta_bias]);
  const float skip = d == nullptr ? 0.0f : load(d[channel * p.d]);
  float rate[kStates], h[kStates];
#pragma unroll
  for (int k = 0; k < kStates; ++k) {
    const int n = lane * kStates + k;
    rate[k] = n < p.states ? scan_rate(a[channel * p.a_channel + n * p.a_state]) : 0.0f;
    h[k] = n < p.states && state != nullptr ? state[n * p.state.step] : 0.0f;
  }

  Vec<T, 4> raw_x, raw_delta, raw_z{}, raw_rows[kFetched];
  const auto fetch = [&](int64_t begin) {
    const int64_t at = begin + 4 * lane;
    raw_x = Turn::quad(x, p.x.step, at, p.length);
    raw_delta = Turn::quad(delta, p.delta.step, at, p.length);
    if (z != nullptr) raw_z = Turn::quad(z, p.z.step, at, p.length);
#pragma unroll
    for (int i = 0; i < kFetched; ++i) {
      const int n = (i % (kFetched / 2) * Turn::kThreads + threadIdx.x) / Turn::kQuads;
      const int64_t from = begin + 4 * (threadIdx.x % Turn::kQuads);
      raw_rows[i] = i < kFetched / 2 ? Turn::quad(b + n * p.b.channel, p.b.step, from, n < p.states ? p.length : 0)
                                     : Turn::quad(c + n * p.c.channel, p.c.step, from, n < p.states ? p.length : 0);
    }
  };
  ScanInput* const inputs = shared_inputs[place];
  float* const sums = shared_sums[place];
  fetch(0);
  int turn = 0;
#pragma unroll 1
  for (int64_t begin = 0; begin < p.length; begin += kSteps, turn ^= 1) {
    float values[4];
    const Vec<T, 4> gates = raw_z;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      values[e] = load(raw_x.v[e]);
      float step = load(raw_delta.v[e]) + bias;
      if (p.softplus) step = softplus_of(step);
      inputs[4 * lane + e] = {step, step * values[e]};
    }
#pragma unroll
    for (int i = 0; i < kFetched; ++i) {
      const int n = (i % (kFetched / 2) * Turn::kThreads + threadIdx.x) / Turn::kQuads;
      float* const to = shared_rows[turn][i / (kFetched / 2)] + 4 * (threadIdx.x % Turn::kQuads) * kRow + n;
#pragma unroll
      for (int e = 0; e < 4; ++e) to[e * kRow] = load(raw_rows[i].v[e]);
    }
    __syncthreads();
    if (begin + kSteps < p.length) fetch(begin + kSteps);
    const int count = static_cast<int>(at_most(kSteps, p.length - begin));
#pragma unroll 1
    for (int i = 0; i < count; i += 8) {
      const float *const in = shared_rows[turn][0] + i * kRow + lane * kStates, *const back = shared_rows[turn][1] +
                                                                                              i * kRow + lane * kStates;
      sums[i + lane] = i + 8 <= count ? scan_steps<kStates, true>(h, rate, inputs + i, in, back, kRow, 8)
                                      : scan_steps<kStates, false>(h, rate, inputs + i, in, back, kRow, count - i);
    }
    __syncwarp();
    const int64_t at = begin + 4 * lane;
    if (!mine || at >= p.length) continue;
    Vec<T, 4> results;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float value = scan_step(skip, values[e], sums[4 * lane + e]);
      if (z != nullptr) value = value * scan_silu(load(gates.v[e]), T{});
      results.v[e] = store<T>(value);
    }
    T* const to = out + at * p.out.step;
    if (at + 4 <= p.length && p.out.step == 1 && reinterpret_cast<uint64_t>(to) % (4 * sizeof(T)) == 0) {
      store_vec(to, results);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (at + e < p.length) to[e * p.out.step] = results.v[e];
    }
  }
  if (mine && state != nullptr) {
#pragma unroll
    for (int k = 0; k < kStates; ++k)
      if (lane * kStates + k < p.states) state[(lane * kStates + k) * p.state.step] = h[k];
  }
}

// selective_scan_wide: one warp takes one channel of one item through time; lane l has states l, l + 32, ... The sum
// over states is that of each lane in order, then a fixed order of lanes.
template <typename T>
__global__ void __launch_bounds__(32 * kScanWarps)
    selective_scan_wide(T* out, compute_t<T>* state, const T* x, const T* delta, const compute_t<T>* a, const T* b,
                        const T* c, const T* d, const T* z, const T* delta_bias,
                        const __grid_constant__ SelectiveScanParams p) {
  using C = compute_t<T>;
  // A lane touches its own states only.
  __shared__ C rates[kScanWarps][kMostStates];
  __shared__ C values[kScanWarps][kMostStates];
  const int64_t index = int64_t{blockIdx.x} * kScanWarps + threadIdx.x / 32;
  if (index >= p.batch * p.channels) return;
  const int lane = threadIdx.x % 32;
  const int64_t channel = index % p.channels, item = index / p.channels;
  x += item * p.x.batch + channel * p.x.channel;
  delta += item * p.delta.batch + channel * p.delta.channel;
  b += item * p.b.batch;
  c += item * p.c.batch;
  out += item * p.out.batch + channel * p.out.channel;
  if (z != nullptr) z += item * p.z.batch + channel * p.z.channel;
  if (state != nullptr) state += item * p.state.batch + channel * p.state.channel;
  const C bias = delta_bias == nullptr ? C(0) : load(delta_bias[channel * p.delta_bias]);
  const C skip = d == nullptr ? C(0) : load(d[channel * p.d]);
  C* const rate = rates[threadIdx.x / 32];
  C* const h = values[threadIdx.x / 32];
#pragma unroll 1
  for (int n = lane; n < p.states; n += 32) {
    rate[n] = scan_rate(a[channel * p.a_channel + n * p.a_state]);
    h[n] = state == nullptr ? C(0) : state[n * p.state.step];
  }
#pragma unroll 1
  for (int64_t t = 0; t < p.length; ++t) {
    const C input = load(x[t * p.x.step]);
    C step = load(delta[t * p.delta.step]) + bias;
    if (p.softplus) step = softplus_of(step);
    C sum = 0;
#pragma unroll 1
    for (int n = lane; n < p.states; n += 32) {
      const C enters = step * input * load(b[n * p.b.channel + t * p.b.step]);
      h[n] = scan_step(decay(step, rate[n]), h[n], enters);
      sum = scan_step(h[n], load(c[n * p.c.channel + t * p.c.step]), sum);
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
    if (lane == 0) {
      C value = scan_step(skip, input, sum);
      if (z != nullptr) value = value * Silu::of(load(z[t * p.z.step]));
      out[t * p.out.step] = store<T>(value);
    }
  }
  if (state != nullptr)
    for (int n = lane; n < p.states; n += 32) state[n * p.state.step] = h[n];
}

}  // namespace gpukit
