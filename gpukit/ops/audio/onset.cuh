// Elements of onset strengths, and the peaks of a row of them.
#pragma once
#include "gpukit/ops/audio/gather.cuh"
#include "gpukit/ops/audio/lanes.cuh"

namespace gpukit {

/// 10 log10 of a power, which counts as 1e-10 where it is less.
struct PowerDecibels {
  using Value = float;
  struct Params {};
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float*, const float*, const Params&) {
    return 10.0f * log10f(a[i] < 1e-10f ? 1e-10f : a[i]);
  }
};

struct OnsetParams {
  int64_t frames, bands, lag, shift, size;  // size: bands that the earlier value is the largest of
  float range;
};

/// Row [signal, frame]: the mean rise of the bands `a` [signal, frame, band], whose largest value is `b` [signal].
struct OnsetStrength {
  using Value = float;
  using Params = OnsetParams;
  using Sums = float;
  struct Row {
    int64_t width, now, before, signal;
  };
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) {
    const int64_t signal = index / p.frames, frame = index % p.frames - p.shift;
    const int64_t now = (signal * p.frames + frame) * p.bands;
    return {frame < p.lag ? 0 : p.bands, now, now - p.lag * p.bands, signal};
  }
  static GPUKIT_DEVICE Sums none() { return 0.0f; }
  static GPUKIT_DEVICE float clamped(float x, float floor) { return x < floor ? floor : x; }
  static GPUKIT_DEVICE void add(Sums& sum, const Row& row, int64_t i, const float* a, const float* b, const float*,
                                const Params& p) {
    const float floor = b[row.signal] - p.range;
    const int64_t first = i - p.size / 2;
    float before = clamped(a[row.before + i], floor);
    for (int64_t k = 0; k < p.size; ++k) {
      int64_t band = first + k;
      band = band < 0 ? -1 - band : band >= p.bands ? 2 * p.bands - 1 - band : band;
      const float x = clamped(a[row.before + band], floor);
      if (x > before) before = x;
    }
    const float rise = clamped(a[row.now + i], floor) - before;
    sum += rise < 0.0f ? 0.0f : rise;
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return x + y; }
  static GPUKIT_DEVICE float finish(Sums sum, const Row&, const float*, const float*, const float*, const Params& p) {
    return sum / static_cast<float>(p.bands);
  }
};

struct PeakParams {
  int64_t frames;
  int64_t max_before, max_after, mean_before, mean_after;  // frames looked at; after: this one among them
  float delta;
};

/// 1 where frame `a` may be a peak, of a row between `b` and `c`.
struct PeakCandidate {
  using Value = uint8_t;
  using Params = PeakParams;
  static GPUKIT_DEVICE uint8_t at(int64_t index, const float* a, const float* b, const float* c, const Params& p) {
    const int64_t row = index / p.frames, frame = index % p.frames;
    const float* x = a + row * p.frames;
    const float low = b[row], span = c[row] - low + 1.17549435e-38f;
    if (!(c[row] > low) || !(span < 3.0e38f)) return 0;
    const float here = (x[frame] - low) / span;
    for (int64_t i = frame - p.max_before; i < frame + p.max_after; ++i)
      if (i >= 0 && i < p.frames && !((x[i] - low) / span <= here)) return 0;
    float sum = 0.0f;
    int64_t count = 0;
    for (int64_t i = frame - p.mean_before; i < frame + p.mean_after; ++i)
      if (i >= 0 && i < p.frames) {
        sum += (x[i] - low) / span;
        ++count;
      }
    return here >= sum / static_cast<float>(count) + p.delta ? 1 : 0;
  }
};

/// Takes away the candidates of a row that come within `wait` frames of one that stays.
GPUKIT_DEVICE void keep_apart(uint8_t* row, int64_t frames, int64_t wait) {
  int64_t next = 0;
  for (int64_t i = 0; i < frames; ++i) {
    if (row[i] != 0 && i < next) row[i] = 0;
    if (row[i] != 0) next = i + wait + 1;
  }
}

#ifdef __CUDACC_RTC__
/// One thread a row.
__global__ void keep_peaks_apart(uint8_t* peaks, int64_t rows, int64_t frames, int64_t wait) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) keep_apart(peaks + row * frames, frames, wait);
}
#endif

}  // namespace gpukit
