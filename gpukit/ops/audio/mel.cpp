#include "gpukit/ops/audio/mel.h"

#include <cmath>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"
#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/mel.cuh"
#include "gpukit/ops/audio/signal_rows.h"

namespace gpukit::audio {

namespace {
const jit::KernelSet kernels("gpukit/ops/audio/mel.cuh", gather_names({"MelWeights", "MelRange"}));
enum Kernel { kWeights, kRange };
constexpr int64_t kCost = 128;
}  // namespace

double hz_to_mel(double hz, MelScale scale) {
  if (scale == MelScale::htk) return 2595.0 * std::log10(1.0 + hz / 700.0);
  return hz < kSlaneyBreakHz ? hz / kSlaneyStep : kSlaneyBreakMel + std::log(hz / kSlaneyBreakHz) / kSlaneyLogStep;
}

double mel_to_hz(double mel, MelScale scale) { return gpukit::mel_to_hz(mel, scale == MelScale::slaney); }

namespace {

/// Where the first and the last triangle end, in mel.
std::pair<double, double> mel_range(const char* op, const MelOptions& o) {
  const double top = o.f_max < 0 ? static_cast<double>(o.sample_rate) / 2 : o.f_max;
  if (o.n_mels < 1) throw ArgumentError(op, "n_mels", "be at least 1", std::to_string(o.n_mels));
  if (o.n_fft < 1) throw ArgumentError(op, "n_fft", "be at least 1", std::to_string(o.n_fft));
  if (o.sample_rate < 1) throw ArgumentError(op, "sample_rate", "be at least 1", std::to_string(o.sample_rate));
  if (!(o.f_min >= 0)) throw ArgumentError(op, "f_min", "not be negative", std::to_string(o.f_min));
  if (!(top > o.f_min) || !std::isfinite(top)) throw ArgumentError(op, "f_max", "be above f_min", number_text(top));
  return {hz_to_mel(o.f_min, o.scale), hz_to_mel(top, o.scale)};
}

MelWeights::Params weight_params(const char* op, const MelOptions& o, bool exact) {
  const auto [low, high] = mel_range(op, o);
  return {.bands = o.n_mels,
          .bins = o.n_fft / 2 + 1,
          .bin_hz = static_cast<double>(o.sample_rate) / static_cast<double>(o.n_fft),
          .low = low,
          .high = high,
          .slaney = o.scale == MelScale::slaney ? 1 : 0,
          .area = o.norm == MelNorm::slaney ? 1 : 0,
          .exact = exact ? 1 : 0};
}

}  // namespace

void check_mel(const char* op, const MelOptions& o) { mel_range(op, o); }

std::vector<double> mel_corners(const char* op, const MelOptions& o) {
  const auto [low, high] = mel_range(op, o);
  std::vector<double> corners(static_cast<size_t>(o.n_mels) + 2);
  for (size_t i = 0; i < corners.size(); ++i)
    corners[i] = mel_to_hz(low + (high - low) * static_cast<double>(i) / static_cast<double>(o.n_mels + 1), o.scale);
  return corners;
}

Array mel_filterbank(const MelOptions& o, Device device, bool exact, const Array* out) {
  constexpr const char* kOp = "create_mel_filterbank";
  const MelWeights::Params p = weight_params(kOp, o, exact);
  Temporaries temporaries(kOp);
  const Output output(kOp, out, {p.bands, p.bins}, DType::float32, device, {}, temporaries);
  gather<MelWeights>(kOp, kernels.get(kWeights), output.to(), {}, {}, {}, p, kCost);
  return output.finish();
}

void mel_bands(const char* op, const MelOptions& o, const Array& bank, const Array& ranges) {
  const MelWeights::Params p = weight_params(op, o, false);
  gather<MelWeights>(op, kernels.get(kWeights), bank, {}, {}, {}, p, kCost);
  gather<MelRange>(op, kernels.get(kRange), ranges, {}, {}, {}, p, kCost);
}

}  // namespace gpukit::audio
