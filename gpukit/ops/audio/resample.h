// A signal at another rate.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::audio {

/// float32 [n] or [batch, n] at `from` Hz as [n * to / from] (rounded down) or [batch, ...] at `to` Hz, for any two
/// rates: a windowed sinc of 192 zero crossings that keeps what lies below 0.93 of the lower half rate and takes away
/// what lies above it by 100 dB. Beyond its ends the signal is 0; equal rates give its very values. Rows do not depend
/// on each other. Throws ShapeError, DTypeError, ArgumentError.
Array resample(const Array& signal, int64_t from, int64_t to, const Array* out = nullptr);

/// The same for channels that lie side by side, [n * channels].
Array resample_channels(const Array& samples, int64_t channels, int64_t from, int64_t to);

}  // namespace gpukit::audio
