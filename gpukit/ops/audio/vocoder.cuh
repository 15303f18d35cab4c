// Elements of a harmonic excitation and of spectra in polar form.
#pragma once
#include "gpukit/ops/audio/gather.cuh"
#include "gpukit/ops/common/normal.cuh"
#include "gpukit/ops/common/philox.cuh"

namespace gpukit {

struct HarmonicParams {
  int64_t n, step;  // values of f0, samples for each
  int32_t harmonics;
  float bias, amplitude, voiced_noise, voiced_above;
  double rate;
  uint64_t seed, offset;
  bool seeded;  // the noise is that of the seed
  float mix[16];
};

/// Elements of random::normal of one state, read in order.
struct NormalReader {
  uint64_t seed, offset;
  int64_t block = -1;
  random::Words words = {};

  GPUKIT_DEVICE float at(int64_t index) {
    constexpr int kPerBlock = random::Draws<uint32_t>::kPerBlock;
    if (index / kPerBlock != block) {
      block = index / kPerBlock;
      words = random::philox(seed, offset, static_cast<uint64_t>(block));
    }
    return random::standard_normal(random::Draws<uint32_t>::word(words, static_cast<int>(index % kPerBlock)));
  }
};

/// Turns in one sample of harmonic h + 1 at f0[i], without whole ones: element [h, i] from f0 `a`.
struct HarmonicTurns {
  using Value = double;
  using Params = HarmonicParams;
  static GPUKIT_DEVICE double at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const double turns = static_cast<double>(index / p.n + 1) * static_cast<double>(a[index % p.n]) / p.rate;
    return turns - ::floor(turns);
  }
};

/// A sample of the source from the running sums of turns `a`, which are float64 [harmonics, n], f0 `b` and noise `c`
/// [samples, harmonics], which may be null: then it is of the seed, or 0.
struct HarmonicSource {
  using Value = float;
  using Params = HarmonicParams;
  static GPUKIT_DEVICE float at(int64_t t, const float* a, const float* b, const float* c, const Params& p) {
    const double* sums = reinterpret_cast<const double*>(a);
    const bool voiced = b[t / p.step] > p.voiced_above;
    const double middle = (static_cast<double>(t) + 0.5) / static_cast<double>(p.step) - 0.5;
    const double u = middle > 0 ? middle : 0;
    const int64_t left = static_cast<int64_t>(u);
    const int64_t right = left + 1 < p.n ? left + 1 : p.n - 1;
    const double part = u - static_cast<double>(left);
    NormalReader normal{p.seed, p.offset};
    float sum = p.bias;
    for (int32_t h = 0; h < p.harmonics; ++h) {
      const int64_t at = t * p.harmonics + h;
      const float noise = c != nullptr ? c[at] : p.seeded ? normal.at(at) : 0.0f;
      float value = p.amplitude / 3.0f * noise;
      if (voiced) {
        const double from = sums[h * p.n + left], to = sums[h * p.n + right];
        const double turns = static_cast<double>(p.step) * (from + part * (to - from));
        value = p.amplitude * sinf(static_cast<float>(6.283185307179586 * (turns - ::floor(turns)))) +
                p.voiced_noise * noise;
      }
      sum += p.mix[h] * value;
    }
    return tanhf(sum);
  }
};

struct PolarParams {
  int64_t frames, bins;
};

/// Element [row, frame] of magnitudes and phases from pairs `a` [frames, bins].
struct MagnitudePhase {
  using Value = float;
  using Params = PolarParams;
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t row = index / p.frames, frame = index % p.frames;
    const int64_t bin = row % p.bins;
    const float* pair = a + 2 * (frame * p.bins + bin);
    // A rounding residue here would turn the phase of negative values into -pi at random.
    const float im = bin == 0 || bin == p.bins - 1 ? 0.0f : pair[1];
    return row < p.bins ? sqrtf(pair[0] * pair[0] + im * im) : atan2f(im, pair[0]);
  }
};

/// One part of element [frame, bin] of a complex spectrum from `a` [2 bins, frames].
struct SpectrumFromLogs {
  using Value = float;
  using Params = PolarParams;
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t at = index / 2;
    const int64_t frame = at / p.bins, bin = at % p.bins;
    const float size = expf(a[bin * p.frames + frame]);
    const float angle = sinf(a[(p.bins + bin) * p.frames + frame]);
    return size * (index % 2 == 0 ? cosf(angle) : sinf(angle));
  }
};

struct LogPolarParams {
  int64_t frames, bins, hop;
  int64_t points;  // of a frame: 2 (bins - 1)
};

/// The periodic Hann window.
GPUKIT_DEVICE float hann(int64_t i, int64_t points) {
  return 0.5f -
         0.5f * cosf(static_cast<float>(6.283185307179586 * static_cast<double>(i) / static_cast<double>(points)));
}

/// Point n of the inverse transform of one frame of `a` [2 bins, frames]: sizes exp(a), angles sin(a) of the second
/// half.
GPUKIT_DEVICE float log_polar_point(const float* a, int64_t frame, int64_t n, const LogPolarParams& p) {
  float sum = 0;
  for (int64_t k = 0; k < p.bins; ++k) {
    const float size = expf(a[k * p.frames + frame]);
    const float angle = sinf(a[(p.bins + k) * p.frames + frame]);
    if (k == 0 || k == p.bins - 1) {  // real: the imaginary part is left out
      const float part = size * cosf(angle);
      sum += k == 0 || n % 2 == 0 ? part : -part;
    } else {
      const double turn = static_cast<double>(k * n % p.points) / static_cast<double>(p.points);
      sum += 2.0f * size * cosf(angle + static_cast<float>(6.283185307179586 * turn));
    }
  }
  return sum / static_cast<float>(p.points);
}

/// A sample of the inverse short-time transform: what the frames over it make, by the sum of their squared windows.
struct SamplesFromLogs {
  using Value = float;
  using Params = LogPolarParams;
  static GPUKIT_DEVICE float at(int64_t t, const float* a, const float*, const float*, const Params& p) {
    const int64_t place = t + p.points / 2;
    const int64_t first = place < p.points ? 0 : (place - p.points) / p.hop + 1;
    const int64_t last = place / p.hop < p.frames ? place / p.hop : p.frames - 1;
    float sum = 0, weight = 0;
    for (int64_t frame = first; frame <= last; ++frame) {
      const int64_t n = place - frame * p.hop;
      const float window = hann(n, p.points);
      sum += window * log_polar_point(a, frame, n, p);
      weight += window * window;
    }
    return weight > 1e-11f ? sum / weight : 0.0f;
  }
};

}  // namespace gpukit
