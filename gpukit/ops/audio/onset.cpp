#include "gpukit/ops/audio/onset.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gpukit/ops/audio/lanes.h"
#include "gpukit/ops/audio/mel_features.h"
#include "gpukit/ops/audio/onset.cuh"
#include "gpukit/ops/audio/signal_rows.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/onset.cuh", gather_names({"PowerDecibels", "PeakCandidate"}));
enum Kernel { kDecibels, kCandidate };
const jit::KernelSet strength("gpukit/ops/audio/onset.cuh", lane_names({"OnsetStrength"}));
const jit::KernelSet apart("gpukit/ops/audio/onset.cuh", {"gpukit::keep_peaks_apart"});

constexpr double kRange = 80.0;  // dB

int64_t frames_of(double seconds, const PeakOptions& o) {
  return static_cast<int64_t>(std::floor(seconds * o.sample_rate / static_cast<double>(o.hop_length)));
}

void keep_peaks_apart(const char* op, const Array& peaks, int64_t wait) {
  const int64_t rows = peaks.shape(0), frames = peaks.shape(1);
  if (peaks.device().kind == DeviceKind::cuda) {
    constexpr int64_t kBlock = 64;
    const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(ceil_div(rows, kBlock)), .block_x = kBlock};
    jit::launch(apart.get(0), peaks.device(), config, write(peaks), rows, frames, wait);
    return;
  }
  runtime::run_host(op, peaks.device(), {write(peaks)}, [rows, frames, wait](void* const* address) {
    auto* values = static_cast<uint8_t*>(address[0]);
    for (int64_t row = 0; row < rows; ++row) keep_apart(values + row * frames, frames, wait);
  });
}

}  // namespace

Array onset_strength(const Array& audio, const MelOptions& bands, const OnsetOptions& o, const Array* out) {
  constexpr const char* kOp = "onset_strength";
  check_signal(kOp, "audio", audio);
  check_at_least(kOp, "n_fft", o.n_fft, 1);
  check_at_least(kOp, "hop_length", o.hop_length, 1);
  check_at_least(kOp, "lag", o.lag, 1);
  check_mel(kOp, bands);
  if (o.max_size < 1 || o.max_size > bands.n_mels)
    throw ArgumentError(kOp, "max_size", "be between 1 and n_mels", std::to_string(o.max_size));
  const StftOptions options{
      .n_fft = o.n_fft, .hop_length = o.hop_length, .win_length = -1, .center = true, .window = {}};
  const int64_t rows = count_rows(audio, 1), frames = stft_frames(audio.shape(-1), options);
  const Device device = audio.device();
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, audio, 1, {frames}), DType::float32, device, {&audio}, temporaries);
  if (output.empty()) return output.finish();
  const Array mels = temporaries.empty(with_last(kOp, audio, 1, {frames, bands.n_mels}), DType::float32, device);
  mel_spectrogram(audio, options, bands, &mels);
  gather<PowerDecibels>(kOp, kernels.get(kDecibels), mels, mels, {}, {}, {}, 32);
  const Array tops = temporaries.empty({rows}, DType::float32, device);
  max(mels.reshape_view({rows, frames * bands.n_mels}), Dims{1}, false, &tops);
  const OnsetParams p{frames,
                      bands.n_mels,
                      std::min(o.lag, frames),
                      o.n_fft / o.hop_length / 2,
                      o.max_size,
                      static_cast<float>(kRange)};
  lane_values<OnsetStrength>(kOp, strength.get(0), output.to(), mels, tops, {}, p, 8 * bands.n_mels * o.max_size);
  return output.finish();
}

Array onset_peaks(const Array& envelope, const PeakOptions& o, const Array* out) {
  constexpr const char* kOp = "onset_peaks";
  check_dtype(kOp, "onset_envelope", envelope, DType::float32);
  if (envelope.ndim() == 0)
    throw ShapeError(kOp, "onset_envelope", "have shape [frames] or [..., frames]", envelope.shape().str());
  check_positive(kOp, "sample_rate", o.sample_rate);
  check_at_least(kOp, "hop_length", o.hop_length, 1);
  if (!std::isfinite(o.delta)) throw ArgumentError(kOp, "delta", "be finite", std::to_string(o.delta));
  constexpr double kMaxRate = 1e9;
  if (o.sample_rate > kMaxRate)
    throw ArgumentError(kOp, "sample_rate", "be at most 1e9", std::to_string(o.sample_rate));
  constexpr double kNear = 0.03, kAround = 0.1;  // seconds
  const int64_t near = frames_of(kNear, o), around = frames_of(kAround, o);
  const Device device = envelope.device();
  Temporaries temporaries(kOp);
  const Output output(kOp, out, envelope.shape(), DType::boolean, device, {&envelope}, temporaries);
  if (output.empty()) return output.finish();
  const Array x = as_rows(envelope, temporaries);
  const int64_t rows = x.shape(0), frames = x.shape(1);
  const Array low = temporaries.empty({rows}, DType::float32, device), high = temporaries.empty_like(low);
  min(x, Dims{1}, false, &low);
  max(x, Dims{1}, false, &high);
  const Array peaks = output.to().reshape_view({rows, frames});
  const PeakParams p{frames, near, 1, around, around + 1, static_cast<float>(o.delta)};
  gather<PeakCandidate>(kOp, kernels.get(kCandidate), peaks, x, low, high, p, 16 * (near + 2 * around + 2));
  keep_peaks_apart(kOp, peaks, near);
  return output.finish();
}

Array onset_detect(const Array& envelope, const PeakOptions& o) {
  constexpr const char* kOp = "onset_detect";
  if (envelope.ndim() != 1)
    throw ShapeError(kOp, "onset_envelope", "have shape [frames]; onset_peaks takes more", envelope.shape().str());
  return nonzero(onset_peaks(envelope, o))[0];
}

}  // namespace gpukit::audio
