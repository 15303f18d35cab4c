// The two ends of a vocoder that works on short spectra: what excites it, and the spectra in and out.
//
// float32; throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include <optional>
#include <span>

#include "gpukit/array/array.h"
#include "gpukit/ops/random/random.h"

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
/// the steps. g is noise[sample, h], standard normal, float32 [n step, harmonics]. Without it g is what random::normal
/// draws of `state` in that shape, made where it is used; without both it is 0.
Array harmonic_source(const Array& f0, const HarmonicOptions& options, const Array* noise = nullptr,
                      const std::optional<random::State>& state = {}, const Array* out = nullptr);

/// [2 bins, frames] of a spectrum complex64 [frames, bins] of a real signal: the magnitudes, then the phases. The first
/// and the last bin are real: their phase is 0 or +pi.
Array magnitude_phase(const Array& spectrum, const Array* out = nullptr);
/// complex64 [frames, bins] from x [2 bins, frames]: exp(x[k]) at the angle sin(x[bins + k]) in radians.
Array spectrum_from_logs(const Array& x, const Array* out = nullptr);
/// The samples [length] whose centred short-time transform has that spectrum: frames of 2 (bins - 1) points under a
/// periodic Hann window, `hop` apart; 0 where no frame reaches. As spectrum_from_logs and istft, in one step.
Array samples_from_logs(const Array& x, int64_t hop, int64_t length, const Array* out = nullptr);

}  // namespace gpukit::audio
