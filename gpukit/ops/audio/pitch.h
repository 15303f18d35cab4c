// Periods of signals. float32 [..., n].
//
// Throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::audio {

/// sum of x[i] x[i + lag] for lags 0 to max_lag - 1: [..., max_lag]. max_lag is at most n. By Fourier transforms.
Array autocorrelation(const Array& audio, int64_t max_lag, const Array* out = nullptr);

struct YinOptions {
  double sample_rate = 16000;
  int64_t frame_size = 1024, hop_size = 256;
  double f_min = 50, f_max = 500;
  double threshold = 0.1;  // of the normalised difference, below which a period counts
};

/// The pitch of each frame in Hz, 0 where no period is found: [..., 1 + (n - frame_size) / hop_size], or none of a
/// shorter signal. A frame compares its first half with later ones, so periods are below half of it. NaN and
/// infinite samples give NaN.
Array pitch_yin(const Array& audio, const YinOptions& options = {}, const Array* out = nullptr);

/// The pitch of a signal [n], which is one frame, in Hz. Waits for the device.
double pitch_yin_whole(const Array& audio, const YinOptions& options = {});

}  // namespace gpukit::audio
