// Short-time spectra: frames, windows, mel bands, and back to a signal. float32.
//
// Signals are [n] or [batch, n] with any strides. Throws DTypeError, ShapeError, ArgumentError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::audio {

struct StftOptions {
  int64_t n_fft = 512, hop_length = 160;
  int64_t win_length = -1;  // -1: n_fft. A shorter window lies in the middle of the frame
  bool center = true;       // frame t is around sample t * hop; beyond the ends the signal is reflected
  Array window;             // float32 [win_length]; a periodic Hann window when undefined
};

/// complex64 [frames, n_fft / 2 + 1] or [batch, frames, ...]: 1 + n / hop frames when centred, else
/// 1 + (n - n_fft) / hop.
Array stft(const Array& x, const StftOptions& options = {}, const Array* out = nullptr);
int64_t stft_frames(int64_t n, const StftOptions& options);

/// The signal whose frames come nearest to a spectrogram [frames, bins] or [batch, frames, bins]; n_fft follows from
/// the bins (2 (bins - 1)) unless given. `length` -1: what the frames reach, without the centring's ends.
Array istft(const Array& spectrum, const StftOptions& options, int64_t length = -1, const Array* out = nullptr);

/// |z|^2 and |z|, float32 of a complex64 array's shape.
Array power(const Array& spectrum, const Array* out = nullptr);
Array magnitude(const Array& spectrum, const Array* out = nullptr);

/// What Whisper listens to: float32 [batch, n_mels, frames] of audio at 16 kHz, which is cut or followed by zeros to
/// frames * 160 samples. Power in Slaney's mel bands, log10, no less than 8 below the item's maximum, (x + 4) / 4.
/// n_mels is at most 128. A 1-D signal is a batch of one.
Array log_mel_whisper(const Array& audio, int64_t n_mels = 80, int64_t frames = 3000, const Array* out = nullptr);

}  // namespace gpukit::audio
