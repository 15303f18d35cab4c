// Mel spectra, their logarithms, cepstra and differences in time. float32.
//
// Spectra are [..., frames, bins]: rows are frames. Throws DTypeError, ShapeError, ArgumentError, DeviceError.
#pragma once

#include "gpukit/ops/audio/mel.h"
#include "gpukit/ops/audio/spectrum.h"

namespace gpukit::audio {

/// The complex spectrum of signals [..., n]: complex64 [..., frames, bins], by stft() of spectrum.h.
Array stft_rows(const char* op, const Array& audio, const StftOptions& options, const Array* out = nullptr);
/// The signals [..., n] of complex64 [..., frames, bins], by istft().
Array istft_rows(const char* op, const Array& spectrum, const StftOptions& options, int64_t length = -1,
                 const Array* out = nullptr);

/// [..., frames, n_mels] of a spectrogram [..., frames, bins] and a filter bank [n_mels, bins].
Array apply_mel_filterbank(const Array& spectrogram, const Array& filterbank, const Array* out = nullptr);
/// log(mel + eps) and 10 log10(x + eps), any shape.
Array log_mel(const Array& mel, double eps = 1e-10, const Array* out = nullptr);
Array to_decibels(const Array& x, double eps = 1e-10, const Array* out = nullptr);

/// Power in mel bands of signals [..., n]: [..., frames, n_mels]. `bands.n_fft` is ignored for that of `frames`.
Array mel_spectrogram(const Array& audio, const StftOptions& frames, const MelOptions& bands,
                      const Array* out = nullptr);
Array log_mel_spectrogram(const Array& audio, const StftOptions& frames, const MelOptions& bands, double eps = 1e-10,
                          const Array* out = nullptr);

/// The first coefficients of the orthonormal DCT-II of [..., n_mels].
Array mfcc(const Array& log_mel, int64_t n_mfcc = 13, const Array* out = nullptr);
/// The slopes along the frames of [..., frames, values] by regression over `width` frames on either side, `order` times
/// over; the frames at the ends repeat.
Array delta(const Array& features, int64_t order = 1, int64_t width = 2, const Array* out = nullptr);

}  // namespace gpukit::audio
