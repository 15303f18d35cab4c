// Musical pitch: constant-Q transforms and pitch classes. float32.
//
// Throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::audio {

struct CqtOptions {
  double sample_rate = 16000;
  int64_t hop_length = 160;
  double f_min = 32.7;
  int64_t n_bins = 84, bins_per_octave = 12;
};

/// complex64 [..., 1 + n / hop_length, n_bins] of signals [..., n]. Bin k is at f = f_min 2^(k / bins_per_octave): the
/// samples around t hop_length times a Hann window of Q sample_rate / f samples and exp(-i 2 pi f time), their sum over
/// that of the window, times the square root of its length. Q = (r^2 + 1) / (r^2 - 1) for the ratio r of two bins.
/// Beyond the ends the signal is 0. Throws ArgumentError where a bin reaches half of the sample rate.
Array cqt(const Array& audio, const CqtOptions& options = {}, const Array* out = nullptr);
/// Its magnitudes, float32.
Array cqt_magnitude(const Array& audio, const CqtOptions& options = {}, const Array* out = nullptr);

/// Each frame of a spectrum [..., bins] by pitch class, from C up, over its largest: [..., n_chroma]. A bin counts for
/// the classes around it and most around 440 Hz. `tuning`: of A4 from 440 Hz, in bins.
Array chroma_stft(const Array& spectrum, double sample_rate = 16000, int64_t n_chroma = 12, double tuning = 0.0,
                  const Array* out = nullptr);
/// The bins of cqt_magnitude [..., n_bins] added up over octaves, over the largest: [..., n_chroma], which divides
/// bins_per_octave. Class 0 is that of the first bin.
Array chroma_cqt(const Array& cqt_mag, int64_t bins_per_octave = 12, int64_t n_chroma = 12, const Array* out = nullptr);

}  // namespace gpukit::audio
