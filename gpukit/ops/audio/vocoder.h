// The two ends of a vocoder that works on short spectra: what excites it, and the spectra in and out.
//
// float32; throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include <span>

#include "gpukit/array/array.h"

namespace gpukit::audio {

inline constexpr int kMaxHarmonics = 16;

struct HarmonicOptions {
  double rate = 24000;         // samples a second
  int64_t step = 300;          // samples for each value of f0
  std::span<const float> mix;  // the weights of harmonics 1, 2, ...: at most kMaxHarmonics
  float bias = 0;
  double amplitude = 0.1, voiced_noise = 0.003;  // unvoiced: a third of the amplitude is noise
  double voiced_above = 10;                      // Hz
};

/// [n step] samples from f0 [n] in Hz: tanh(bias + sum of mix[h] (voiced: amplitude sin(phase of h + 1) +
/// voiced_noise g; unvoiced: amplitude / 3 g)). Phases are running sums of f0 in float64, linear between the middles of
/// the steps. g is noise[sample, h], standard normal, float32 [n step, harmonics]; 0 when null.
Array harmonic_source(const Array& f0, const HarmonicOptions& options, const Array* noise = nullptr,
                      const Array* out = nullptr);

/// [2 bins, frames] of a spectrum complex64 [frames, bins] of a real signal: the magnitudes, then the phases. The first
/// and the last bin are real: their phase is 0 or +pi.
Array magnitude_phase(const Array& spectrum, const Array* out = nullptr);
/// complex64 [frames, bins] from x [2 bins, frames]: exp(x[k]) at the angle sin(x[bins + k]) in radians.
Array spectrum_from_logs(const Array& x, const Array* out = nullptr);

}  // namespace gpukit::audio
