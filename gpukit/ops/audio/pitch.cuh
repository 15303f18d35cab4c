// Differences of a signal and itself, later; the periods in them.
#pragma once
#include "gpukit/ops/audio/gather.cuh"
#include "gpukit/ops/audio/lanes.cuh"

namespace gpukit {

struct YinParams {
  int64_t n, frames, rows;  // frames of one signal, of all
  int64_t hop, window;
  int64_t min_period, max_period;
  float threshold, rate;
};

/// Row [period, frame]: the sum of (x[i] - x[i + period])^2 over the window. Period 0 is left out: row 0 is period 1.
struct YinDifference {
  using Value = float;
  using Params = YinParams;
  using Sums = float;
  struct Row {
    int64_t width, sample, period;
  };
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) {
    const int64_t frame = index % p.rows;
    return {p.window, frame / p.frames * p.n + frame % p.frames * p.hop, index / p.rows + 1};
  }
  static GPUKIT_DEVICE Sums none() { return 0.0f; }
  static GPUKIT_DEVICE void add(Sums& sum, const Row& row, int64_t i, const float* a, const float*, const float*,
                                const Params&) {
    const float* x = a + row.sample + i;
    const float difference = x[0] - x[row.period];
    sum += difference * difference;
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return x + y; }
  static GPUKIT_DEVICE float finish(Sums sum, const Row&, const float*, const float*, const float*, const Params&) {
    return sum;
  }
};

/// The pitch of a frame from its differences `a` [period - 1, frame]: the first dip of the difference over its running
/// mean that is below the threshold.
struct YinPitch {
  using Value = float;
  using Params = YinParams;
  static GPUKIT_DEVICE float at(int64_t frame, const float* a, const float*, const float*, const Params& p) {
    const float* d = a + frame;
    float running = 0.0f, before = 0.0f, here = 0.0f;
    for (int64_t period = 1; period <= p.max_period + 1; ++period) {
      // `next` is the normalised difference of this period; `here` that of the one before it.
      float next = here;
      if (period <= p.max_period) {
        const float difference = d[(period - 1) * p.rows];
        running += difference;
        if (!(running <= 3.4028235e38f)) return running - running;
        next = running == 0.0f ? 1.0f : difference * static_cast<float>(period) / running;
      }
      const int64_t at = period - 1;
      const bool inner = at > p.min_period && at < p.max_period;
      const bool dips = at == p.min_period ? here < next : here < before && here <= next;
      if (at >= p.min_period && dips && here < p.threshold) {
        const float bend = before + next - 2.0f * here, slope = 0.5f * (next - before);
        const float shift = inner && fabsf(slope) < fabsf(bend) ? -slope / bend : 0.0f;
        return p.rate / (static_cast<float>(at) + shift);
      }
      before = here;
      here = next;
    }
    return 0.0f;
  }
};

/// |z|^2 of complex numbers `a` as a complex number.
struct PowerSpectrumPairs {
  using Value = ComplexValue;
  struct Params {};
  static GPUKIT_DEVICE ComplexValue at(int64_t i, const float* a, const float*, const float*, const Params&) {
    return {a[2 * i] * a[2 * i] + a[2 * i + 1] * a[2 * i + 1], 0.0f};
  }
};

}  // namespace gpukit
