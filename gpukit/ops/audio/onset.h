// Where notes and syllables begin. float32.
//
// Throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include "gpukit/ops/audio/mel.h"

namespace gpukit::audio {

struct OnsetOptions {
  int64_t n_fft = 2048, hop_length = 512;
  int64_t lag = 1;       // frames between what is compared
  int64_t max_size = 1;  // mel bands of the earlier frame that one may rise from
};
/// [..., 1 + n / hop_length] of signals [..., n]: by how many decibels the mel bands rise, on average, of what is at
/// most 80 dB below the signal's loudest. Moved by half a frame, to where it happens.
Array onset_strength(const Array& audio, const MelOptions& bands, const OnsetOptions& options = {},
                     const Array* out = nullptr);

struct PeakOptions {
  double sample_rate = 16000;
  int64_t hop_length = 512;
  double delta = 0.07;  // above the mean around, of an envelope scaled to [0, 1]
};
/// bool [..., frames] of strengths [..., frames]: a frame that is the largest within 30 ms before it, above the mean
/// from 100 ms before to 100 ms after it by delta, and more than 30 ms after the one before. A row of equal values, or
/// one that holds NaN or infinity, has none.
Array onset_peaks(const Array& onset_envelope, const PeakOptions& options = {}, const Array* out = nullptr);
/// int64 [onsets] of strengths [frames]: the frames. Waits for the device.
Array onset_detect(const Array& onset_envelope, const PeakOptions& options = {});

}  // namespace gpukit::audio
