#include "gpukit/ops/audio/mel_features.h"

#include <cmath>
#include <utility>

#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/mel.cuh"
#include "gpukit/ops/audio/signal_rows.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/matmul.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/mel.cuh",
                             gather_names({"ScaledLog", "CosineTransform", "FrameDelta", "MelPower"}));
enum Kernel { kLog, kCosines, kDelta, kMelPower };

constexpr MatmulOptions kExact{.precision = MatmulPrecision::exact};

void check_eps(const char* op, double eps) {
  if (!(eps >= 0) || !std::isfinite(eps))
    throw ArgumentError(op, "eps", "not be negative and be finite", std::to_string(eps));
}

Array scaled_log(const char* op, const char* argument, const Array& x, double eps, bool decimal, const Array* out) {
  check_dtype(op, argument, x, DType::float32);
  check_eps(op, eps);
  Temporaries temporaries(op);
  const Output output(op, out, x.shape(), DType::float32, x.device(), {}, temporaries);
  if (output.empty()) return output.finish();
  const ScaledLog::Params p{decimal ? 10.0f : 1.0f, static_cast<float>(eps), decimal ? 1 : 0};
  // Each element is read before it is written, so the result may lie where the input does.
  Array input = contiguous(x, temporaries);
  if (must_buffer(output.to(), {&input})) input = copy(input, temporaries);
  gather<ScaledLog>(op, kernels.get(kLog), output.to(), input, {}, {}, p, 32);
  return output.finish();
}

Array mel_power(const char* op, const Array& audio, const StftOptions& frames, const MelOptions& given,
                const double* eps, const Array* out) {
  check_signal(op, "audio", audio);
  MelOptions bands = given;
  bands.n_fft = frames.n_fft;
  check_mel(op, bands);
  if (eps != nullptr) check_eps(op, *eps);
  check_at_least(op, "hop_length", frames.hop_length, 1);
  const int64_t count = stft_frames(audio.shape(-1), frames), bins = frames.n_fft / 2 + 1;
  const Device device = audio.device();
  Temporaries temporaries(op);
  const Output output(op, out, with_last(op, audio, 1, {count, bands.n_mels}), DType::float32, device, {&audio},
                      temporaries);
  if (output.empty()) return output.finish();
  const Array bank = temporaries.empty({bands.n_mels, bins}, DType::float32, device);
  const Array ranges = temporaries.empty({bands.n_mels}, DType::int64, device);
  mel_bands(op, bands, bank, ranges);
  const Array spectrum = temporaries.empty(with_last(op, audio, 1, {count, bins}), DType::complex64, device);
  stft_rows(op, audio, frames, &spectrum);
  const MelPower::Params p{bands.n_mels, bins, eps != nullptr ? static_cast<float>(*eps) : 0.0f,
                           eps != nullptr ? 1 : 0};
  gather<MelPower>(op, kernels.get(kMelPower), output.to(), spectrum, bank, ranges, p, 8 + 8 * bins / bands.n_mels);
  return output.finish();
}

}  // namespace

Array stft_rows(const char* op, const Array& audio, const StftOptions& options, const Array* out) {
  check_signal(op, "audio", audio);
  check_at_least(op, "n_fft", options.n_fft, 1);
  check_at_least(op, "hop_length", options.hop_length, 1);
  const int64_t frames = stft_frames(audio.shape(-1), options), bins = options.n_fft / 2 + 1;
  Temporaries temporaries(op);
  const Output output(op, out, with_last(op, audio, 1, {frames, bins}), DType::complex64, audio.device(), {&audio},
                      temporaries);
  const Array rows = as_rows(audio, temporaries);
  const Array target = output.to().reshape_view({rows.shape(0), frames, bins});
  stft(rows, options, &target);
  return output.finish();
}

Array istft_rows(const char* op, const Array& spectrum, const StftOptions& options, int64_t length, const Array* out) {
  check_dtype(op, "stft_output", spectrum, DType::complex64);
  if (spectrum.ndim() < 2)
    throw ShapeError(op, "stft_output", "have shape [..., frames, bins]", spectrum.shape().str());
  check_at_least(op, "n_fft", options.n_fft, 1);
  check_at_least(op, "hop_length", options.hop_length, 1);
  const int64_t frames = spectrum.shape(-2), bins = spectrum.shape(-1);
  const int64_t reach =
      frames == 0 ? 0 : checked_sum(op, checked_product(op, frames - 1, options.hop_length), options.n_fft);
  const int64_t natural = options.center ? std::max<int64_t>(0, reach - options.n_fft / 2 * 2) : reach;
  if (length < -1) throw ArgumentError(op, "length", "be -1 or a number of samples", std::to_string(length));
  const int64_t samples = length < 0 ? natural : length;
  Temporaries temporaries(op);
  const Output output(op, out, with_last(op, spectrum, 2, {samples}), DType::float32, spectrum.device(), {&spectrum},
                      temporaries);
  const int64_t rows = count_rows(spectrum, 2);
  const Array frame_rows = contiguous(spectrum, temporaries).reshape_view({rows, frames, bins});
  const Array target = output.to().reshape_view({rows, samples});
  istft(frame_rows, options, samples, &target);
  return output.finish();
}

Array apply_mel_filterbank(const Array& spectrogram, const Array& filterbank, const Array* out) {
  constexpr const char* kOp = "apply_mel_filterbank";
  check_spectrum(kOp, "spectrogram", spectrogram);
  check_dtype(kOp, "mel_filterbank", filterbank, DType::float32);
  check_same_device(kOp, spectrogram, filterbank);
  if (filterbank.ndim() != 2 || filterbank.shape(-1) != spectrogram.shape(-1))
    throw ShapeError(kOp, "mel_filterbank", "have shape [n_mels, " + std::to_string(spectrogram.shape(-1)) + "]",
                     filterbank.shape().str());
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, spectrogram, 1, {filterbank.shape(0)}), DType::float32,
                      spectrogram.device(), {&spectrogram, &filterbank}, temporaries);
  if (output.empty()) return output.finish();
  const Array rows = as_rows(spectrogram, temporaries);
  const Array target = output.to().reshape_view({rows.shape(0), filterbank.shape(0)});
  matmul(rows, filterbank.transpose(), &target, kExact);
  return output.finish();
}

Array log_mel(const Array& mel, double eps, const Array* out) {
  return scaled_log("log_mel", "mel", mel, eps, false, out);
}
Array to_decibels(const Array& x, double eps, const Array* out) {
  return scaled_log("to_decibels", "audio", x, eps, true, out);
}

Array mel_spectrogram(const Array& audio, const StftOptions& frames, const MelOptions& bands, const Array* out) {
  return mel_power("mel_spectrogram", audio, frames, bands, nullptr, out);
}
Array log_mel_spectrogram(const Array& audio, const StftOptions& frames, const MelOptions& bands, double eps,
                          const Array* out) {
  return mel_power("log_mel_spectrogram", audio, frames, bands, &eps, out);
}

Array mfcc(const Array& input, int64_t n_mfcc, const Array* out) {
  constexpr const char* kOp = "mfcc";
  check_spectrum(kOp, "log_mel_input", input);
  const int64_t size = input.shape(-1);
  if (n_mfcc < 1 || n_mfcc > size)
    throw ArgumentError(kOp, "n_mfcc", "be between 1 and the number of mel bands, " + std::to_string(size),
                        std::to_string(n_mfcc));
  const Device device = input.device();
  Temporaries temporaries(kOp);
  const Output output(kOp, out, with_last(kOp, input, 1, {n_mfcc}), DType::float32, device, {&input}, temporaries);
  if (output.empty()) return output.finish();
  const Array cosines = temporaries.empty({size, n_mfcc}, DType::float32, device);
  gather<CosineTransform>(kOp, kernels.get(kCosines), cosines, {}, {}, {}, {size, n_mfcc}, 64);
  const Array rows = as_rows(input, temporaries);
  const Array target = output.to().reshape_view({rows.shape(0), n_mfcc});
  matmul(rows, cosines, &target, kExact);
  return output.finish();
}

Array delta(const Array& features, int64_t order, int64_t width, const Array* out) {
  constexpr const char* kOp = "delta";
  constexpr int64_t kMaxOrder = 8, kMaxWidth = 1 << 16;
  check_spectrum(kOp, "features", features, 2, 0);
  if (order < 1 || order > kMaxOrder) throw ArgumentError(kOp, "order", "be between 1 and 8", std::to_string(order));
  if (width < 1 || width > kMaxWidth)
    throw ArgumentError(kOp, "width", "be between 1 and 65536", std::to_string(width));
  Temporaries temporaries(kOp);
  const Output output(kOp, out, features.shape(), DType::float32, features.device(), {&features}, temporaries);
  if (output.empty()) return output.finish();
  const FrameDelta::Params p{features.shape(-2), features.shape(-1), width};
  Array from = contiguous(features, temporaries);
  for (int64_t i = 1; i <= order; ++i) {
    const Array to = i == order ? output.to() : temporaries.empty_like(features);
    gather<FrameDelta>(kOp, kernels.get(kDelta), to, from, {}, {}, p, 8 * width);
    from = to;
  }
  return output.finish();
}

}  // namespace gpukit::audio
