// Signals from magnitudes, other tempo, other pitch. float32.
//
// Throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::audio {

struct GriffinLimOptions {
  int64_t n_iter = 32, hop_length = 160, win_length = -1;
  double momentum = 0.99;
  int64_t seed = 0;  // of the phases it starts from
};
/// Signals [..., (frames - 1) hop_length] whose centred spectra have about the magnitudes [..., frames, bins].
Array griffin_lim(const Array& magnitude, const GriffinLimOptions& options = {}, const Array* out = nullptr);

struct StretchOptions {
  int64_t n_fft = 2048, hop_length = 512;
  bool phase_lock = true;  // the bins around a peak keep the phases they have to it
};
/// complex64 [..., ceil(frames / rate), bins] of a spectrum [..., frames, bins] of frames hop_length apart: magnitudes
/// between two frames, phases that go on as fast as they do there.
Array phase_vocoder(const Array& spectrum, double rate, const StretchOptions& options = {}, const Array* out = nullptr);
/// [..., round(n / rate)]: signals [..., n] that are `rate` times as fast at the same pitch. rate is 0.01 to 100.
Array time_stretch(const Array& audio, double rate, const StretchOptions& options = {}, const Array* out = nullptr);
/// [..., n]: signals n_steps semitones higher, as long as before. n_steps is -48 to 48.
Array pitch_shift(const Array& audio, double sample_rate, double n_steps, const StretchOptions& options = {},
                  const Array* out = nullptr);

}  // namespace gpukit::audio
