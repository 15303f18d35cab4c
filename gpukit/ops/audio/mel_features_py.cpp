#include "gpukit/ops/audio/mel_features.h"

#include <nanobind/stl/string.h>

#include "gpukit/ops/audio/complex_py.h"
#include "gpukit/ops/audio/signal_py.h"

namespace gpukit {
namespace {

using namespace python;

audio::StftOptions to_frames(const char* op, int64_t n_fft, int64_t hop_length, int64_t win_length, bool center,
                             ArrayArg window) {
  audio::StftOptions options{
      .n_fft = n_fft, .hop_length = hop_length, .win_length = win_length, .center = center, .window = {}};
  if (const Array* given = to_optional_array(op, "window", window)) options.window = *given;
  return options;
}

audio::MelScale to_scale(const char* op, const std::string& name) {
  if (name == "htk") return audio::MelScale::htk;
  if (name == "slaney") return audio::MelScale::slaney;
  throw ArgumentError(op, "mel_scale", "be htk or slaney", name);
}

audio::MelNorm to_norm(const char* op, StringArg name) {
  if (name.is_none()) return audio::MelNorm::none;
  const std::string text = to_text(op, "norm", name);
  if (text == "slaney") return audio::MelNorm::slaney;
  throw ArgumentError(op, "norm", "be None or slaney", text);
}

void bind_spectra(nb::module_& m) {
  m.def(
      "stft",
      [](SignalArg samples, int64_t n_fft, int64_t hop_length, int64_t win_length, bool center, ArrayArg window,
         bool return_complex, ArrayArg out) {
        constexpr const char* kOp = "stft";
        const Signal signal = to_signal(kOp, "audio", samples);
        const audio::StftOptions options = to_frames(kOp, n_fft, hop_length, win_length, center, window);
        return with_pairs(kOp, out, return_complex,
                          [&](const Array* target) { return audio::stft_rows(kOp, signal.samples, options, target); });
      },
      "audio"_a, "n_fft"_a = 512, "hop_length"_a = 160, "win_length"_a = -1, "center"_a = true, nb::kw_only(),
      "window"_a = nb::none(), "return_complex"_a = false, "out"_a = nb::none(),
      "Short-time spectra: float32 [..., frames, n_fft // 2 + 1, 2], real and imaginary parts, or complex64 [..., "
      "frames, n_fft // 2 + 1].");
  m.def(
      "istft",
      [](const ArrayObject& stft_output, int64_t hop_length, int64_t win_length, bool center, int64_t length,
         int64_t n_fft, ArrayArg window, ArrayArg out) {
        constexpr const char* kOp = "istft";
        const Array& given = to_array(kOp, "stft_output", stft_output);
        return with_out(kOp, out, [&](const Array* target) {
          Temporaries temporaries(kOp);
          const Array spectrum = to_complex(kOp, "stft_output", given, temporaries);
          const int64_t size = n_fft < 0 && spectrum.ndim() > 0 ? 2 * (spectrum.shape(-1) - 1) : n_fft;
          return audio::istft_rows(kOp, spectrum, to_frames(kOp, size, hop_length, win_length, center, window), length,
                                   target);
        });
      },
      "stft_output"_a, "hop_length"_a = 160, "win_length"_a = -1, "center"_a = true, "length"_a = -1, nb::kw_only(),
      "n_fft"_a = -1, "window"_a = nb::none(), "out"_a = nb::none(), "The signals [..., n] of what stft gives.");
  m.def(
      "power_spectrum",
      [](const ArrayObject& stft_output, ArrayArg out) {
        constexpr const char* kOp = "power_spectrum";
        const Array& given = to_array(kOp, "stft_output", stft_output);
        return with_out(kOp, out, [&](const Array* target) {
          Temporaries temporaries(kOp);
          return audio::power(to_complex(kOp, "stft_output", given, temporaries), target);
        });
      },
      "stft_output"_a, nb::kw_only(), "out"_a = nb::none(), "Squared magnitudes of what stft gives.");
  m.def(
      "magnitude_spectrum",
      [](const ArrayObject& stft_output, ArrayArg out) {
        constexpr const char* kOp = "magnitude_spectrum";
        const Array& given = to_array(kOp, "stft_output", stft_output);
        return with_out(kOp, out, [&](const Array* target) {
          Temporaries temporaries(kOp);
          return audio::magnitude(to_complex(kOp, "stft_output", given, temporaries), target);
        });
      },
      "stft_output"_a, nb::kw_only(), "out"_a = nb::none(), "Magnitudes of what stft gives.");
}

void bind_mel(nb::module_& m) {
  m.def(
      "create_mel_filterbank",
      [](int64_t n_mels, int64_t n_fft, int64_t sample_rate, double f_min, double f_max, const std::string& mel_scale,
         StringArg norm, DeviceArg device, ArrayArg out) {
        constexpr const char* kOp = "create_mel_filterbank";
        const audio::MelOptions options{.n_mels = n_mels,
                                        .n_fft = n_fft,
                                        .sample_rate = sample_rate,
                                        .f_min = f_min,
                                        .f_max = f_max,
                                        .scale = to_scale(kOp, mel_scale),
                                        .norm = to_norm(kOp, norm)};
        const Array* given = to_optional_array(kOp, "out", out);
        const Device where = given != nullptr && device.is_none() ? given->device() : to_device(device);
        return with_out(kOp, out,
                        [&](const Array* target) { return audio::mel_filterbank(options, where, false, target); });
      },
      "n_mels"_a = 80, "n_fft"_a = 512, "sample_rate"_a = 16000, "f_min"_a = 0.0, "f_max"_a = -1.0, nb::kw_only(),
      "mel_scale"_a = "htk", "norm"_a = nb::none(), "device"_a = nb::none(), "out"_a = nb::none(),
      "Triangles of the htk or slaney mel scale, float32 [n_mels, n_fft // 2 + 1]; norm \"slaney\" gives all the same "
      "area. f_max below 0: half the sample rate.");
  m.def(
      "apply_mel_filterbank",
      [](const ArrayObject& spectrogram, const ArrayObject& mel_filterbank, ArrayArg out) {
        constexpr const char* kOp = "apply_mel_filterbank";
        const Array& given = to_array(kOp, "spectrogram", spectrogram);
        const Array& bank = to_array(kOp, "mel_filterbank", mel_filterbank);
        return with_out(kOp, out,
                        [&](const Array* target) { return audio::apply_mel_filterbank(given, bank, target); });
      },
      "spectrogram"_a, "mel_filterbank"_a, nb::kw_only(), "out"_a = nb::none(),
      "[..., n_mels] of a spectrogram [..., bins] and filters [n_mels, bins].");
  m.def(
      "log_mel",
      [](const ArrayObject& mel, double eps, ArrayArg out) {
        const Array& given = to_array("log_mel", "mel", mel);
        return with_out("log_mel", out, [&](const Array* target) { return audio::log_mel(given, eps, target); });
      },
      "mel"_a, "eps"_a = 1e-10, nb::kw_only(), "out"_a = nb::none(), "log(mel + eps).");
  m.def(
      "to_decibels",
      [](SignalArg samples, double eps, ArrayArg out) {
        const Signal given = to_signal("to_decibels", "audio", samples);
        return with_out("to_decibels", out,
                        [&](const Array* target) { return audio::to_decibels(given.samples, eps, target); });
      },
      "audio"_a, "eps"_a = 1e-10, nb::kw_only(), "out"_a = nb::none(), "10 log10(audio + eps).");
}

/// mel_spectrogram and log_mel_spectrogram take the same but for eps.
template <bool kLog>
ArrayObject mels(const char* op, SignalArg samples, int64_t n_fft, int64_t hop_length, int64_t n_mels,
                 int64_t sample_rate, double f_min, double f_max, double eps, int64_t win_length, bool center,
                 ArrayArg window, const std::string& mel_scale, StringArg norm, ArrayArg out) {
  const Signal signal = to_signal(op, "audio", samples);
  const audio::StftOptions frames = to_frames(op, n_fft, hop_length, win_length, center, window);
  const audio::MelOptions bands{.n_mels = n_mels,
                                .n_fft = n_fft,
                                .sample_rate = sample_rate,
                                .f_min = f_min,
                                .f_max = f_max,
                                .scale = to_scale(op, mel_scale),
                                .norm = to_norm(op, norm)};
  return with_out(op, out, [&](const Array* target) {
    return kLog ? audio::log_mel_spectrogram(signal.samples, frames, bands, eps, target)
                : audio::mel_spectrogram(signal.samples, frames, bands, target);
  });
}

void bind_mel_spectrogram(nb::module_& m) {
  m.def(
      "mel_spectrogram",
      [](SignalArg samples, int64_t n_fft, int64_t hop_length, int64_t n_mels, int64_t sample_rate, double f_min,
         double f_max, int64_t win_length, bool center, ArrayArg window, const std::string& mel_scale, StringArg norm,
         ArrayArg out) {
        return mels<false>("mel_spectrogram", samples, n_fft, hop_length, n_mels, sample_rate, f_min, f_max, 0,
                           win_length, center, window, mel_scale, norm, out);
      },
      "audio"_a, "n_fft"_a = 512, "hop_length"_a = 160, "n_mels"_a = 80, "sample_rate"_a = 16000, "f_min"_a = 0.0,
      "f_max"_a = -1.0, nb::kw_only(), "win_length"_a = -1, "center"_a = true, "window"_a = nb::none(),
      "mel_scale"_a = "htk", "norm"_a = nb::none(), "out"_a = nb::none(),
      "Power in mel bands, [..., frames, n_mels]: stft, power_spectrum and a mel filter bank.");
  m.def(
      "log_mel_spectrogram",
      [](SignalArg samples, int64_t n_fft, int64_t hop_length, int64_t n_mels, int64_t sample_rate, double f_min,
         double f_max, double eps, int64_t win_length, bool center, ArrayArg window, const std::string& mel_scale,
         StringArg norm, ArrayArg out) {
        return mels<true>("log_mel_spectrogram", samples, n_fft, hop_length, n_mels, sample_rate, f_min, f_max, eps,
                          win_length, center, window, mel_scale, norm, out);
      },
      "audio"_a, "n_fft"_a = 512, "hop_length"_a = 160, "n_mels"_a = 80, "sample_rate"_a = 16000, "f_min"_a = 0.0,
      "f_max"_a = -1.0, "eps"_a = 1e-10, nb::kw_only(), "win_length"_a = -1, "center"_a = true, "window"_a = nb::none(),
      "mel_scale"_a = "htk", "norm"_a = nb::none(), "out"_a = nb::none(), "log(mel_spectrogram + eps).");
  m.def(
      "mfcc",
      [](const ArrayObject& log_mel_input, int64_t n_mfcc, ArrayArg out) {
        const Array& given = to_array("mfcc", "log_mel_input", log_mel_input);
        return with_out("mfcc", out, [&](const Array* target) { return audio::mfcc(given, n_mfcc, target); });
      },
      "log_mel_input"_a, "n_mfcc"_a = 13, nb::kw_only(), "out"_a = nb::none(),
      "The first coefficients of the orthonormal DCT-II of [..., n_mels].");
  m.def(
      "delta",
      [](const ArrayObject& features, int64_t order, int64_t width, ArrayArg out) {
        const Array& given = to_array("delta", "features", features);
        return with_out("delta", out, [&](const Array* target) { return audio::delta(given, order, width, target); });
      },
      "features"_a, "order"_a = 1, "width"_a = 2, nb::kw_only(), "out"_a = nb::none(),
      "Slopes along the frames of [..., frames, values] over width frames on either side, order times over.");
}

}  // namespace

void bind_mel_features(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_audio_features", "What pygpukit.ops.audio measures and changes; internal.");
  bind_spectra(m);
  bind_mel(m);
  bind_mel_spectrogram(m);
}

}  // namespace gpukit
