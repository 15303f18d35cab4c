// Filters, gates and levels of sound.
//
// Signals are float32 [n] or [batch, n] with any strides; rows do not depend on each other. `out` may be the signal
// itself. Filters begin with silence before the first sample. Throws DTypeError, ShapeError, ArgumentError.
#pragma once

#include <string_view>
#include <vector>

#include "gpukit/array/array.h"

namespace gpukit::audio {

/// y[i] = x[i] - alpha x[i - 1].
Array preemphasis(const Array& audio, double alpha = 0.97, const Array* out = nullptr);
/// y[i] = x[i] + alpha y[i - 1], -1 < alpha < 1: undoes preemphasis.
Array deemphasis(const Array& audio, double alpha = 0.97, const Array* out = nullptr);
/// One pole: y[i] = a (y[i - 1] + x[i] - x[i - 1]), a = r / (r + 1 / sample_rate), r = 1 / (2 pi cutoff_hz).
Array highpass_filter(const Array& audio, double cutoff_hz = 20.0, int64_t sample_rate = 16000,
                      const Array* out = nullptr);
/// x less the mean of its row.
Array remove_dc(const Array& audio, const Array* out = nullptr);
/// Samples nearer to 0 than `threshold` become 0.
Array noise_gate(const Array& audio, double threshold = 0.01, const Array* out = nullptr);
/// Frames of `attack_samples` whose mean square e is below the threshold are multiplied by (e / threshold)^2. The
/// factor rises within one frame and falls by at most 1 in `release_samples`.
Array spectral_gate(const Array& audio, double threshold = 0.01, int64_t attack_samples = 64,
                    int64_t release_samples = 256, const Array* out = nullptr);

/// The mean square of each whole frame: [n / frame_size] of a row.
Array compute_short_term_energy(const Array& audio, int64_t frame_size = 256, const Array* out = nullptr);

/// Of frames [begin, begin + size), begin = 0, hop, 2 hop ...: [frames] or [batch, frames].
struct FrameLevels {
  Array rms;
  Array crossings;  // changes of sign over size - 1
};
FrameLevels frame_levels(const Array& audio, int64_t frame_size, int64_t hop_size);

enum class Loudness { peak, rms };
/// `peak` or `rms`. Throws ArgumentError naming `op`.
Loudness loudness_from_name(const char* op, std::string_view name);
/// All samples by one factor: the largest magnitude becomes 1, or the root mean square that of `target_db` below full
/// scale. Silence stays.
Array normalize(const Array& audio, Loudness mode = Loudness::peak, double target_db = -20.0,
                const Array* out = nullptr);

/// What a buffer of samples must be: float32 [n * channels], a rate and channels of at least 1. Throws DTypeError,
/// ShapeError, ArgumentError.
void check_buffer(const Array& data, int64_t sample_rate, int64_t channels);
/// float32 of samples: integers by their full scale, so that they lie in [-1, 1), unsigned ones about their middle.
/// Throws DTypeError for what is neither integer nor float.
Array to_full_scale(const Array& samples);
/// float32 of int16 samples, full scale at 1. float32 samples are given back as they are.
Array from_pcm(const Array& samples);
/// [n] of two channels side by side, [2 n]: their mean. One channel is given back as it is.
Array to_mono(const Array& samples, int64_t channels);

}  // namespace gpukit::audio
