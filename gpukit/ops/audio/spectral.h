// One number, or a few, for each frame of a spectrum. float32.
//
// A spectrum is [..., bins], bins n_fft / 2 + 1 frequencies from 0 to half of the sample rate; it is taken as it is,
// magnitudes or powers. Throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::audio {

/// The mean frequency, in Hz: [...]. 0 for a frame of zeros.
Array spectral_centroid(const Array& spectrum, double sample_rate = 16000, const Array* out = nullptr);
/// (the mean of |frequency - centroid|^p)^(1 / p) in Hz; `centroids` is [...].
Array spectral_bandwidth(const Array& spectrum, const Array& centroids, double sample_rate = 16000, double p = 2,
                         const Array* out = nullptr);
/// The lowest frequency up to which a part of the sum lies. NaN for a frame that holds one.
Array spectral_rolloff(const Array& spectrum, double sample_rate = 16000, double roll_percent = 0.85,
                       const Array* out = nullptr);
/// The geometric over the arithmetic mean, of values that count as 1e-10 where they are less.
Array spectral_flatness(const Array& spectrum, const Array* out = nullptr);

inline constexpr int kMaxContrastBands = 15;

struct ContrastOptions {
  int64_t n_bands = 6;
  double alpha = 0.2;  // the part of a band's bins that makes its peak, and its valley
  double sample_rate = 16000, f_min = 200;
};
/// 10 log10 of peak over valley for each octave from f_min up, after what lies below f_min: [..., n_bands + 1].
Array spectral_contrast(const Array& spectrum, const ContrastOptions& options = {}, const Array* out = nullptr);

/// The part of neighbouring samples of a frame that differ in sign: [..., 1 + (n - frame_size) / hop_size] of a signal
/// [..., n], or none of a shorter one. Zero and NaN count as positive.
Array zero_crossing_rate(const Array& audio, int64_t frame_size = 512, int64_t hop_size = 256,
                         const Array* out = nullptr);

}  // namespace gpukit::audio
