// Elements of phase vocoders, of Griffin-Lim's iteration and of sampling between samples.
#pragma once
#include "gpukit/ops/audio/gather.cuh"
#include "gpukit/ops/audio/lanes.cuh"
#include "gpukit/ops/common/philox.cuh"

namespace gpukit {

inline constexpr double kTurn = 6.283185307179586;

/// Magnitudes `a` [frames, bins] of one signal after another at random phases that depend on frame and bin alone.
struct RandomPhase {
  using Value = ComplexValue;
  struct Params {
    int64_t elements, seed;
  };
  static GPUKIT_DEVICE ComplexValue at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const uint64_t block = static_cast<uint64_t>(index % p.elements);
    const random::Words words = random::philox(static_cast<uint64_t>(p.seed), 0, block);
    const float angle = static_cast<float>(words.v[0] >> 8) * (6.2831853f / 16777216.0f);
    return {a[index] * cosf(angle), a[index] * sinf(angle)};
  }
};

/// Magnitudes `a` at the phases of b - pull * c, complex numbers; c is not read when pull is 0.
struct MomentumPhase {
  using Value = ComplexValue;
  struct Params {
    float pull;
  };
  static GPUKIT_DEVICE ComplexValue at(int64_t i, const float* a, const float* b, const float* c, const Params& p) {
    float re = b[2 * i], im = b[2 * i + 1];
    if (p.pull != 0.0f) {
      re -= p.pull * c[2 * i];
      im -= p.pull * c[2 * i + 1];
    }
    const float scale = a[i] / (sqrtf(re * re + im * im) + 1.17549435e-38f);
    return {re * scale, im * scale};
  }
};

struct StretchParams {
  int64_t frames, bins, steps;  // steps: frames of the result
  double rate, advance;         // advance: turns of bin 1 from frame to frame
  int32_t lock;
};

/// The complex number of a frame, 0 after the last one.
GPUKIT_DEVICE ComplexValue frame_value(const float* spectrum, int64_t frame, int64_t bin, const StretchParams& p) {
  if (frame >= p.frames) return {0.0f, 0.0f};
  const float* pair = spectrum + 2 * (frame * p.bins + bin);
  return {pair[0], pair[1]};
}
GPUKIT_DEVICE double turns_of(ComplexValue z) { return static_cast<double>(atan2f(z.im, z.re)) / kTurn; }

/// Element [signal, step, bin]: the first frame's phase, then how far the phase goes from the step before. In turns,
/// without whole ones; their running sums are the phases of the result.
struct StretchTurns {
  using Value = double;
  using Params = StretchParams;
  static GPUKIT_DEVICE double at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t bin = index % p.bins, step = index / p.bins % p.steps;
    const float* spectrum = a + 2 * (index / p.bins / p.steps * p.frames * p.bins);
    if (step == 0) return turns_of(frame_value(spectrum, 0, bin, p));
    const int64_t frame = static_cast<int64_t>(static_cast<double>(step - 1) * p.rate);
    const double expected = p.advance * static_cast<double>(bin);
    double more = turns_of(frame_value(spectrum, frame + 1, bin, p)) - turns_of(frame_value(spectrum, frame, bin, p));
    more -= expected;
    more -= ::rint(more);
    const double turns = expected + more;
    return turns - ::floor(turns);
  }
};

/// Element [signal, step, bin]: the magnitude between two frames.
struct StretchMagnitude {
  using Value = float;
  using Params = StretchParams;
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t bin = index % p.bins, step = index / p.bins % p.steps;
    const float* spectrum = a + 2 * (index / p.bins / p.steps * p.frames * p.bins);
    const double time = static_cast<double>(step) * p.rate;
    const int64_t frame = static_cast<int64_t>(time);
    const float part = static_cast<float>(time - static_cast<double>(frame));
    const ComplexValue here = frame_value(spectrum, frame, bin, p), next = frame_value(spectrum, frame + 1, bin, p);
    return (1.0f - part) * sqrtf(here.re * here.re + here.im * here.im) +
           part * sqrtf(next.re * next.re + next.im * next.im);
  }
};

/// The result from the spectrum `a`, the running sums of turns `b` (float64) and the magnitudes `c`.
struct StretchedSpectrum {
  using Value = ComplexValue;
  using Params = StretchParams;
  /// The peak that magnitudes climb to from a bin.
  static GPUKIT_DEVICE int64_t peak_of(const float* sizes, int64_t bin, int64_t bins) {
    constexpr int kReach = 32;
    for (int i = 0; i < kReach; ++i) {
      const float here = sizes[bin];
      const float left = bin > 0 ? sizes[bin - 1] : 0.0f, right = bin + 1 < bins ? sizes[bin + 1] : 0.0f;
      if (left > here && left >= right)
        --bin;
      else if (right > here)
        ++bin;
      else
        return bin;
    }
    return bin;
  }
  static GPUKIT_DEVICE ComplexValue at(int64_t index, const float* a, const float* b, const float* c, const Params& p) {
    const int64_t bin = index % p.bins, step = index / p.bins % p.steps;
    const float* spectrum = a + 2 * (index / p.bins / p.steps * p.frames * p.bins);
    const double* sums = reinterpret_cast<const double*>(b);
    double turns = sums[index];
    if (p.lock) {
      const int64_t peak = peak_of(c + (index - bin), bin, p.bins);
      const int64_t frame = static_cast<int64_t>(static_cast<double>(step) * p.rate);
      if (peak != bin)
        turns = sums[index - bin + peak] + turns_of(frame_value(spectrum, frame, bin, p)) -
                turns_of(frame_value(spectrum, frame, peak, p));
    }
    const float angle = static_cast<float>(kTurn * (turns - ::rint(turns)));
    return {c[index] * cosf(angle), c[index] * sinf(angle)};
  }
};

inline constexpr int64_t kShiftCrossings = 48, kShiftSteps = 512, kShiftPoints = kShiftCrossings * kShiftSteps + 2;

/// Point `i` of half a windowed sinc.
struct ShiftSinc {
  using Value = float;
  struct Params {};
  static GPUKIT_DEVICE double bessel(double x) {
    double term = 1.0, sum = 1.0;
    for (int k = 1; k < 40; ++k) {
      term *= x / (2.0 * k) * (x / (2.0 * k));
      sum += term;
    }
    return sum;
  }
  static GPUKIT_DEVICE float at(int64_t i, const float*, const float*, const float*, const Params&) {
    constexpr double kBeta = 10.0;
    const double x = static_cast<double>(i) / static_cast<double>(kShiftSteps);
    const double part = x / static_cast<double>(kShiftCrossings), angle = 3.141592653589793 * x;
    if (part >= 1) return 0.0f;
    const double window = bessel(kBeta * ::sqrt(1 - part * part)) / bessel(kBeta);
    return static_cast<float>((i == 0 ? 1.0 : ::sin(angle) / angle) * window);
  }
};

/// Sample `i` of each row: the signal `a` at i * step, below `cutoff` times its half rate, by the table `b`.
struct SampleBetween {
  using Value = float;
  struct Params {
    int64_t n, samples;  // given, of the result
    double step;
    float cutoff;
  };
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float* b, const float*, const Params& p) {
    const float* x = a + index / p.samples * p.n;
    const double middle = static_cast<double>(index % p.samples) * p.step;
    const double reach = static_cast<double>(kShiftCrossings) / static_cast<double>(p.cutoff);
    const int64_t low = static_cast<int64_t>(::ceil(middle - reach)), high = static_cast<int64_t>(middle + reach);
    float sum = 0.0f;
    for (int64_t i = low > 0 ? low : 0; i <= high && i < p.n; ++i) {
      const float at =
          fabsf(static_cast<float>(static_cast<double>(i) - middle)) * p.cutoff * static_cast<float>(kShiftSteps);
      const int32_t point = static_cast<int32_t>(at);
      if (point + 1 >= kShiftPoints) continue;
      sum += x[i] * (b[point] + (at - static_cast<float>(point)) * (b[point + 1] - b[point]));
    }
    return sum * p.cutoff;
  }
};

}  // namespace gpukit
