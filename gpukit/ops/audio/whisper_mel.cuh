// Whisper's log-mel spectrogram: frames of 400 samples, 160 apart, in one kernel; then the clamp by the maximum.
#pragma once
#include "gpukit/ops/audio/gather.cuh"

namespace gpukit {

inline constexpr int kWhisperFft = 400, kWhisperHop = 160, kWhisperBins = 201, kWhisperMaxBands = 128;

/// Triangles over the bins: band m is up[k] of the bins from begin[m], then down[k] of those from begin[m + 1], up to
/// begin[m + 2].
struct WhisperBands {
  float up[kWhisperBins], down[kWhisperBins];
  uint8_t begin[kWhisperMaxBands + 4];
};

struct WhisperParams {
  int64_t batch, given, n;  // samples there are, and with zeros behind
  int64_t frames;
  int32_t bands;
  WhisperBands triangles;
};

GPUKIT_DEVICE float log_of_band(float sum) { return log10f(sum > 1e-10f ? sum : sum != sum ? sum : 1e-10f); }

/// The logarithm of one band from squared magnitudes.
GPUKIT_DEVICE float whisper_band(const float* power, const float* up, const float* down, const uint8_t* begin, int m) {
  float sum = 0.0f;
  for (int k = begin[m]; k < begin[m + 1]; ++k) sum += power[k] * up[k];
  for (int k = begin[m + 1]; k < begin[m + 2]; ++k) sum += power[k] * down[k];
  return log_of_band(sum);
}

/// out[batch, band, frame] from squared magnitudes `a` [batch, frame, bin].
struct WhisperMel {
  using Value = float;
  using Params = WhisperParams;
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t frame = index % p.frames;
    const int64_t m = index / p.frames % p.bands;
    const int64_t batch = index / p.frames / p.bands;
    return whisper_band(a + (batch * p.frames + frame) * kWhisperBins, p.triangles.up, p.triangles.down,
                        p.triangles.begin, static_cast<int>(m));
  }
};

/// (max(x, top - 8) + 4) / 4 with the maximum of a batch item in `b`.
struct WhisperClamp {
  using Value = float;
  struct Params {
    int64_t item;  // elements of one batch item
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float* b, const float*, const Params& p) {
    const float floor = b[i / p.item] - 8.0f, x = a[i];
    return ((x > floor || x != x ? x : floor) + 4.0f) / 4.0f;
  }
};

}  // namespace gpukit
