// Bands of the mel scale.
#pragma once

#include <vector>

#include "gpukit/array/array.h"

namespace gpukit::audio {

enum class MelScale { htk, slaney };
enum class MelNorm { none, slaney };  // slaney: every triangle has the same area in Hz

struct MelOptions {
  int64_t n_mels = 80, n_fft = 512, sample_rate = 16000;
  double f_min = 0.0, f_max = -1.0;  // below 0: half the sample rate
  MelScale scale = MelScale::htk;
  MelNorm norm = MelNorm::none;
};

double hz_to_mel(double hz, MelScale scale);
double mel_to_hz(double mel, MelScale scale);
/// Throws ArgumentError naming `op`.
void check_mel(const char* op, const MelOptions& options);
/// The n_mels + 2 corners of the triangles in Hz. Throws ArgumentError naming `op`.
std::vector<double> mel_corners(const char* op, const MelOptions& options);
/// float32 [n_mels, n_fft / 2 + 1]. A triangle narrower than the bins gets the nearest one, so that no row is empty;
/// with `exact` it stays empty.
Array mel_filterbank(const MelOptions& options, Device device, bool exact = false, const Array* out = nullptr);
/// The same filters into `bank`, and into int64 `ranges` [n_mels] the BinRange of each (mel.cuh).
void mel_bands(const char* op, const MelOptions& options, const Array& bank, const Array& ranges);

}  // namespace gpukit::audio
