// Elements of windows, frames, overlap-add and mel bands.
#pragma once
#include "gpukit/ops/audio/gather.cuh"

namespace gpukit {

/// The sample that reflection about the first and last one puts at `i`.
GPUKIT_DEVICE int64_t reflected(int64_t i, int64_t n) {
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1);
  i %= period;
  if (i < 0) i += period;
  return i < n ? i : period - i;
}

/// A periodic Hann window of `width`, in the middle of `size` elements.
struct HannWindow {
  using Value = float;
  struct Params {
    int64_t size, width;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float*, const float*, const float*, const Params& p) {
    const int64_t k = i - (p.size - p.width) / 2;
    if (k < 0 || k >= p.width) return 0.0f;
    const double angle = 6.283185307179586 * static_cast<double>(k) / static_cast<double>(p.width);
    return static_cast<float>(0.5 - 0.5 * ::cos(angle));
  }
};

/// A window given as `a` [width], in the middle of `size` elements.
struct CenteredWindow {
  using Value = float;
  struct Params {
    int64_t size, width;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float*, const float*, const Params& p) {
    const int64_t k = i - (p.size - p.width) / 2;
    return k < 0 || k >= p.width ? 0.0f : a[k];
  }
};

/// out[batch, frame, i] = x[batch, frame * hop + i - before] window[i]: x is `a`, the window `b`. Samples from `given`
/// up to `n` are zeros; beyond the ends the signal is reflected.
struct WindowedFrames {
  using Value = float;
  struct Params {
    int64_t n, given, frames, size, hop, before;
  };
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float* b, const float*, const Params& p) {
    const int64_t i = index % p.size;
    const int64_t frame = index / p.size % p.frames;
    const int64_t batch = index / p.size / p.frames;
    const int64_t sample = reflected(frame * p.hop + i - p.before, p.n);
    return sample < p.given ? a[batch * p.given + sample] * b[i] : 0.0f;
  }
};

/// out[batch, t] = sum of frames `a` over t, times the window `b`, over the sum of the squared window.
struct OverlapAdd {
  using Value = float;
  struct Params {
    int64_t length, frames, size, hop, before;
  };
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float* b, const float*, const Params& p) {
    const int64_t t = index % p.length + p.before;
    const int64_t batch = index / p.length;
    const int64_t first = t < p.size ? 0 : (t - p.size) / p.hop + 1;
    const int64_t last = t / p.hop < p.frames - 1 ? t / p.hop : p.frames - 1;
    float sum = 0.0f, weight = 0.0f;
    for (int64_t frame = first; frame <= last; ++frame) {
      const int64_t i = t - frame * p.hop;
      sum += a[(batch * p.frames + frame) * p.size + i] * b[i];
      weight += b[i] * b[i];
    }
    return weight > 1e-11f ? sum / weight : sum;
  }
};

/// |z|^2 or |z| of pairs `a`.
struct SquaredMagnitude {
  using Value = float;
  struct Params {
    int32_t root;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float*, const float*, const Params& p) {
    const float re = a[2 * i], im = a[2 * i + 1];
    const float power = re * re + im * im;
    return p.root ? sqrtf(power) : power;
  }
};

}  // namespace gpukit
