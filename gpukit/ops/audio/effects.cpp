#include "gpukit/ops/audio/effects.h"

#include <cmath>
#include <string>
#include <utility>

#include "gpukit/base/number_text.h"
#include "gpukit/ops/audio/effects.cuh"
#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/mel_features.h"
#include "gpukit/ops/audio/signal_rows.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/effects.cuh",
                             gather_names({"RandomPhase", "MomentumPhase", "StretchTurns", "StretchMagnitude",
                                           "StretchedSpectrum", "ShiftSinc", "SampleBetween"}));
enum Kernel { kRandom, kMomentum, kTurns, kMagnitude, kSpectrum, kTable, kSample };

void check_stretch(const char* op, double rate, const StretchOptions& o) {
  if (!(rate >= 0.01 && rate <= 100)) throw ArgumentError(op, "rate", "be between 0.01 and 100", number_text(rate));
  check_at_least(op, "n_fft", o.n_fft, 2);
  if (o.hop_length < 1 || o.hop_length > o.n_fft)
    throw ArgumentError(op, "hop_length", "be between 1 and n_fft", std::to_string(o.hop_length));
}

/// to [rows, steps, bins] of a spectrum [rows, frames, bins], both row-major.
void stretch_frames(const char* op, const Array& spectrum, double rate, const StretchOptions& o, const Array& to) {
  StretchParams p{};
  p.frames = spectrum.shape(1);
  p.bins = spectrum.shape(2);
  p.steps = to.shape(1);
  p.rate = rate;
  p.advance = static_cast<double>(o.hop_length) / static_cast<double>(o.n_fft);
  p.lock = o.phase_lock ? 1 : 0;
  constexpr int64_t kCost = 200;
  Temporaries temporaries(op);
  const Array sums = temporaries.empty(to.shape(), DType::float64, to.device());
  const Array sizes = temporaries.empty(to.shape(), DType::float32, to.device());
  const Array turns = temporaries.empty(to.shape(), DType::float64, to.device());
  gather<StretchTurns>(op, kernels.get(kTurns), turns, spectrum, {}, {}, p, kCost);
  cumsum(turns, 1, {}, &sums);
  gather<StretchMagnitude>(op, kernels.get(kMagnitude), sizes, spectrum, {}, {}, p, 64);
  gather<StretchedSpectrum>(op, kernels.get(kSpectrum), to, spectrum, sums, sizes, p, kCost);
}

int64_t stretched_frames(int64_t frames, double rate) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(frames) / rate));
}

/// Rows [rows, n] at another tempo, into `to` [rows, samples].
void stretch_signal(const char* op, const Array& rows, double rate, const StretchOptions& o, const Array& to) {
  const StftOptions frames{
      .n_fft = o.n_fft, .hop_length = o.hop_length, .win_length = -1, .center = true, .window = {}};
  const int64_t given = stft_frames(rows.shape(1), frames), bins = o.n_fft / 2 + 1;
  Temporaries temporaries(op);
  const Array stretched =
      temporaries.empty({rows.shape(0), stretched_frames(given, rate), bins}, DType::complex64, rows.device());
  {
    Temporaries inner(op);
    const Array spectrum = inner.empty({rows.shape(0), given, bins}, DType::complex64, rows.device());
    stft(rows, frames, &spectrum);
    stretch_frames(op, spectrum, rate, o, stretched);
  }
  istft(stretched, frames, to.shape(1), &to);
}

int64_t stretched_samples(int64_t n, double rate) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(n) / rate));
}

}  // namespace

Array griffin_lim(const Array& magnitude, const GriffinLimOptions& o, const Array* out) {
  constexpr const char* kOp = "griffin_lim";
  check_spectrum(kOp, "magnitude", magnitude, 2, 2);
  if (magnitude.shape(-2) < 2) throw ShapeError(kOp, "magnitude", "have at least 2 frames", magnitude.shape().str());
  constexpr int64_t kMaxIterations = 100000;
  if (o.n_iter < 0 || o.n_iter > kMaxIterations)
    throw ArgumentError(kOp, "n_iter", "be between 0 and 100000", std::to_string(o.n_iter));
  check_at_least(kOp, "hop_length", o.hop_length, 1);
  if (!(o.momentum >= 0 && o.momentum < 1))
    throw ArgumentError(kOp, "momentum", "be at least 0 and below 1", std::to_string(o.momentum));
  const int64_t frames = magnitude.shape(-2), bins = magnitude.shape(-1), rows = count_rows(magnitude, 2);
  const int64_t samples = checked_product(kOp, frames - 1, o.hop_length);
  const StftOptions options{
      .n_fft = 2 * (bins - 1), .hop_length = o.hop_length, .win_length = o.win_length, .center = true, .window = {}};
  const Device device = magnitude.device();
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, magnitude, 2, {samples}), DType::float32, device, {&magnitude},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array signal = output.to().reshape_view({rows, samples});
  const Array sizes = contiguous(magnitude, temporaries);
  const Dims shape{rows, frames, bins};
  const Array current = temporaries.empty(shape, DType::complex64, device);
  Array rebuilt = temporaries.empty(shape, DType::complex64, device);
  Array before = temporaries.empty(shape, DType::complex64, device);
  gather<RandomPhase>(kOp, kernels.get(kRandom), current, sizes, {}, {}, {frames * bins, o.seed}, 128);
  const auto pull = static_cast<float>(o.momentum / (1 + o.momentum));
  for (int64_t i = 0; i < o.n_iter; ++i) {
    istft(current, options, samples, &signal);
    stft(signal, options, &rebuilt);
    gather<MomentumPhase>(kOp, kernels.get(kMomentum), current, sizes, rebuilt, before, {i == 0 ? 0.0f : pull});
    std::swap(rebuilt, before);
  }
  istft(current, options, samples, &signal);
  return output.finish();
}

Array phase_vocoder(const Array& spectrum, double rate, const StretchOptions& given, const Array* out) {
  constexpr const char* kOp = "phase_vocoder";
  check_dtype(kOp, "spectrum", spectrum, DType::complex64);
  if (spectrum.ndim() < 2) throw ShapeError(kOp, "spectrum", "have shape [..., frames, bins]", spectrum.shape().str());
  check_stretch(kOp, rate, given);
  const int64_t frames = spectrum.shape(-2), bins = spectrum.shape(-1), rows = count_rows(spectrum, 2);
  if (bins != given.n_fft / 2 + 1)
    throw ShapeError(kOp, "spectrum", "have n_fft / 2 + 1 = " + std::to_string(given.n_fft / 2 + 1) + " bins",
                     spectrum.shape().str());
  const int64_t steps = stretched_frames(frames, rate);
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, spectrum, 2, {steps, bins}), DType::complex64, spectrum.device(),
                      {&spectrum}, temporaries);
  if (output.empty()) return output.finish();
  stretch_frames(kOp, contiguous(spectrum, temporaries).reshape_view({rows, frames, bins}), rate, given,
                 output.to().reshape_view({rows, steps, bins}));
  return output.finish();
}

Array time_stretch(const Array& audio, double rate, const StretchOptions& o, const Array* out) {
  constexpr const char* kOp = "time_stretch";
  check_signal(kOp, "audio", audio);
  check_stretch(kOp, rate, o);
  Temporaries temporaries(kOp);
  const int64_t samples = stretched_samples(audio.shape(-1), rate);
  const Output output(kOp, out, with_last(kOp, audio, 1, {samples}), DType::float32, audio.device(), {&audio},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array rows = as_rows(audio, temporaries);
  stretch_signal(kOp, rows, rate, o, output.to().reshape_view({rows.shape(0), samples}));
  return output.finish();
}

Array pitch_shift(const Array& audio, double sample_rate, double n_steps, const StretchOptions& o, const Array* out) {
  constexpr const char* kOp = "pitch_shift";
  check_signal(kOp, "audio", audio);
  check_positive(kOp, "sample_rate", sample_rate);
  if (!(n_steps >= -48 && n_steps <= 48))
    throw ArgumentError(kOp, "n_steps", "be between -48 and 48", std::to_string(n_steps));
  const double rate = std::exp2(-n_steps / 12);
  check_stretch(kOp, rate, o);
  const Device device = audio.device();
  Temporaries temporaries(kOp);
  const Output output(kOp, out, audio.shape(), DType::float32, device, {&audio}, temporaries);
  if (output.empty()) return output.finish();
  const Array rows = as_rows(audio, temporaries);
  const int64_t n = rows.shape(1), samples = stretched_samples(n, rate);
  const Array stretched = temporaries.empty({rows.shape(0), samples}, DType::float32, device);
  if (samples > 0) stretch_signal(kOp, rows, rate, o, stretched);
  const Array table = temporaries.empty({kShiftPoints}, DType::float32, device);
  gather<ShiftSinc>(kOp, kernels.get(kTable), table, {}, {}, {}, {}, 512);
  constexpr double kPassed = 0.95;  // of the lower half rate
  const SampleBetween::Params p{samples, n, 1 / rate, static_cast<float>(kPassed * std::min(1.0, rate))};
  gather<SampleBetween>(kOp, kernels.get(kSample), output.to(), stretched, table, {}, p,
                        8 * static_cast<int64_t>(2 * kShiftCrossings / p.cutoff));
  return output.finish();
}

}  // namespace gpukit::audio
