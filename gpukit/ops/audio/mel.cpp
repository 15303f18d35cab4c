#include "gpukit/ops/audio/mel.h"

#include <algorithm>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"

namespace gpukit::audio {

namespace {
// Slaney's scale: linear up to 1 kHz, logarithmic above.
constexpr double kLinearStep = 200.0 / 3.0, kBreakHz = 1000.0, kBreakMel = kBreakHz / kLinearStep;
const double kLogStep = std::log(6.4) / 27.0;
}  // namespace

double hz_to_mel(double hz, MelScale scale) {
  if (scale == MelScale::htk) return 2595.0 * std::log10(1.0 + hz / 700.0);
  return hz < kBreakHz ? hz / kLinearStep : kBreakMel + std::log(hz / kBreakHz) / kLogStep;
}

double mel_to_hz(double mel, MelScale scale) {
  if (scale == MelScale::htk) return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
  return mel < kBreakMel ? mel * kLinearStep : kBreakHz * std::exp((mel - kBreakMel) * kLogStep);
}

std::vector<double> mel_corners(const char* op, const MelOptions& o) {
  const double top = o.f_max < 0 ? static_cast<double>(o.sample_rate) / 2 : o.f_max;
  if (o.n_mels < 1) throw ArgumentError(op, "n_mels", "be at least 1", std::to_string(o.n_mels));
  if (o.n_fft < 1) throw ArgumentError(op, "n_fft", "be at least 1", std::to_string(o.n_fft));
  if (o.sample_rate < 1) throw ArgumentError(op, "sample_rate", "be at least 1", std::to_string(o.sample_rate));
  if (!(o.f_min >= 0)) throw ArgumentError(op, "f_min", "not be negative", std::to_string(o.f_min));
  if (!(top > o.f_min) || !std::isfinite(top)) throw ArgumentError(op, "f_max", "be above f_min", std::to_string(top));
  const double low = hz_to_mel(o.f_min, o.scale), high = hz_to_mel(top, o.scale);
  std::vector<double> corners(static_cast<size_t>(o.n_mels) + 2);
  for (size_t i = 0; i < corners.size(); ++i)
    corners[i] = mel_to_hz(low + (high - low) * static_cast<double>(i) / static_cast<double>(o.n_mels + 1), o.scale);
  return corners;
}

Array mel_filterbank(const MelOptions& o, Device device, bool exact) {
  const std::vector<double> hz = mel_corners("create_mel_filterbank", o);
  const int64_t bins = o.n_fft / 2 + 1;
  std::vector<float> weights(static_cast<size_t>(o.n_mels * bins), 0.0f);
  const double bin_hz = static_cast<double>(o.sample_rate) / static_cast<double>(o.n_fft);
  for (int64_t m = 0; m < o.n_mels; ++m) {
    const auto at = static_cast<size_t>(m);
    float* row = weights.data() + m * bins;
    const double area = o.norm == MelNorm::slaney ? 2.0 / (hz[at + 2] - hz[at]) : 1.0;
    bool any = false;
    for (int64_t k = 0; k < bins; ++k) {
      const double f = static_cast<double>(k) * bin_hz;
      const double up = (f - hz[at]) / (hz[at + 1] - hz[at]), down = (hz[at + 2] - f) / (hz[at + 2] - hz[at + 1]);
      const double weight = std::max(0.0, std::min(up, down));
      row[k] = static_cast<float>(weight * area);
      any = any || weight > 0;
    }
    if (!any && !exact)
      row[std::clamp<int64_t>(std::lround(hz[at + 1] / bin_hz), 0, bins - 1)] = static_cast<float>(area);
  }
  return from_host(weights.data(), {o.n_mels, bins}, DType::float32, device);
}

}  // namespace gpukit::audio
