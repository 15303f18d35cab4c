#include "gpukit/ops/audio/pitch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gpukit/array/host.h"
#include "gpukit/ops/audio/lanes.h"
#include "gpukit/ops/audio/pitch.cuh"
#include "gpukit/ops/audio/signal_rows.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/fft/fft.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet difference_kernels("gpukit/ops/audio/pitch.cuh", lane_names({"YinDifference"}));
const jit::KernelSet kernels("gpukit/ops/audio/pitch.cuh", gather_names({"YinPitch", "PowerSpectrumPairs"}));
enum Kernel { kPitch, kPower };

/// The least product of 2, 3 and 5 from `n` up.
int64_t round_up_smooth(const char* op, int64_t n) {
  int64_t best = 1;
  while (best < n) best = checked_product(op, best, 2);
  for (int64_t fives = 1; fives < best; fives *= 5)
    for (int64_t odd = fives; odd < best; odd *= 3) {
      int64_t size = odd;
      while (size < n) size *= 2;
      best = std::min(best, size);
    }
  return best;
}

}  // namespace

Array autocorrelation(const Array& audio, int64_t max_lag, const Array* out) {
  constexpr const char* kOp = "autocorrelation";
  check_signal(kOp, "audio", audio);
  const int64_t n = audio.shape(-1);
  if (max_lag < 1 || max_lag > n)
    throw ArgumentError(kOp, "max_lag", "be between 1 and the number of samples, " + std::to_string(n),
                        std::to_string(max_lag));
  const Device device = audio.device();
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, audio, 1, {max_lag}), DType::float32, device, {&audio}, temporaries);
  if (output.empty()) return output.finish();
  const int64_t rows = count_rows(audio, 1), size = round_up_smooth(kOp, n + max_lag), bins = size / 2 + 1;
  const Array spectrum = temporaries.empty({rows, bins}, DType::complex64, device);
  fft::rfft(as_rows(audio, temporaries), size, -1, fft::Norm::backward, &spectrum);
  const Array powers = temporaries.empty({rows, bins}, DType::complex64, device);
  gather<PowerSpectrumPairs>(kOp, kernels.get(kPower), powers, spectrum, {}, {}, {});
  const Array lags = temporaries.empty({rows, size}, DType::float32, device);
  fft::irfft(powers, size, -1, fft::Norm::backward, &lags);
  copy_into(output.to().reshape_view({rows, max_lag}), lags.narrow(1, 0, max_lag));
  return output.finish();
}

namespace {

int64_t shortest_period(const YinOptions& o) {
  return std::max<int64_t>(1, static_cast<int64_t>(o.sample_rate / o.f_max));
}

void check_yin(const char* op, const YinOptions& o) {
  check_positive(op, "sample_rate", o.sample_rate);
  check_positive(op, "f_min", o.f_min);
  check_positive(op, "f_max", o.f_max);
  check_positive(op, "threshold", o.threshold);
  if (o.f_max <= o.f_min) throw ArgumentError(op, "f_max", "be above f_min", std::to_string(o.f_max));
  if (o.f_max > o.sample_rate / 2)
    throw ArgumentError(op, "f_max", "be at most half of the sample rate", std::to_string(o.f_max));
  constexpr double kMaxPeriod = 1 << 30;
  if (o.sample_rate / o.f_max > kMaxPeriod)
    throw ArgumentError(op, "f_max", "have a period of less than 2^30 samples", std::to_string(o.f_max));
}

Array pitches(const char* op, const Array& audio, const YinOptions& o, const Array* out) {
  YinParams p{};
  p.n = audio.shape(-1);
  p.hop = o.hop_size;
  p.window = o.frame_size / 2;
  p.min_period = shortest_period(o);
  p.max_period = static_cast<int64_t>(
      std::min(std::ceil(o.sample_rate / o.f_min), static_cast<double>(o.frame_size - p.window - 1)));
  p.frames = p.n < o.frame_size ? 0 : 1 + (p.n - o.frame_size) / p.hop;
  p.rows = count_rows(audio, 1) * p.frames;
  p.threshold = static_cast<float>(o.threshold);
  p.rate = static_cast<float>(o.sample_rate);
  Temporaries temporaries(op);
  const Output output(op, out, with_last(op, audio, 1, {p.frames}), DType::float32, audio.device(), {&audio},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array signal = as_rows(audio, temporaries);
  const Array differences = temporaries.empty({p.max_period, p.rows}, DType::float32, audio.device());
  lane_values<YinDifference>(op, difference_kernels.get(0), differences, signal, {}, {}, p, 4 * p.window);
  gather<YinPitch>(op, kernels.get(kPitch), output.to(), differences, {}, {}, p, 8 * p.max_period);
  return output.finish();
}

}  // namespace

Array pitch_yin(const Array& audio, const YinOptions& o, const Array* out) {
  constexpr const char* kOp = "detect_pitch_yin_frames";
  check_signal(kOp, "audio", audio);
  check_yin(kOp, o);
  check_at_least(kOp, "hop_size", o.hop_size, 1);
  const int64_t least = 2 * (shortest_period(o) + 2);
  if (o.frame_size < least)
    throw ArgumentError(kOp, "frame_size", "be at least " + std::to_string(least) + " for this f_max",
                        std::to_string(o.frame_size));
  return pitches(kOp, audio, o, out);
}

double pitch_yin_whole(const Array& audio, const YinOptions& options) {
  constexpr const char* kOp = "detect_pitch_yin";
  check_signal(kOp, "audio", audio);
  check_ndim(kOp, "audio", audio, 1);
  check_yin(kOp, options);
  const int64_t least = 2 * (shortest_period(options) + 2);
  if (audio.shape(0) < least)
    throw ShapeError(kOp, "audio", "have at least " + std::to_string(least) + " samples for this f_max",
                     audio.shape().str());
  YinOptions whole = options;
  whole.frame_size = whole.hop_size = audio.shape(0);
  const Array pitch = pitches(kOp, audio, whole, nullptr);
  float value = 0;
  to_host(&value, pitch, kOp);
  return value;
}

}  // namespace gpukit::audio
