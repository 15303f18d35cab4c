#include <nanobind/stl/string.h>

#include "gpukit/ops/audio/mel.h"
#include "gpukit/ops/audio/resample.h"
#include "gpukit/ops/audio/spectrum.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using namespace python;

audio::StftOptions to_options(const char* op, int64_t n_fft, int64_t hop_length, int64_t win_length, bool center,
                              ArrayArg window) {
  audio::StftOptions options{
      .n_fft = n_fft, .hop_length = hop_length, .win_length = win_length, .center = center, .window = {}};
  if (const Array* given = to_optional_array(op, "window", window)) options.window = *given;
  return options;
}

audio::MelScale to_scale(const std::string& name) {
  if (name == "htk") return audio::MelScale::htk;
  if (name == "slaney") return audio::MelScale::slaney;
  throw ArgumentError("create_mel_filterbank", "scale", "be htk or slaney", name);
}

}  // namespace

void bind_spectrum(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_audio", "The functions of pygpukit.ops.audio; internal.");
  m.def(
      "stft",
      [](const ArrayObject& x, int64_t n_fft, int64_t hop_length, int64_t win_length, bool center, ArrayArg window,
         ArrayArg out) {
        const Array& values = to_array("stft", "x", x);
        const audio::StftOptions options = to_options("stft", n_fft, hop_length, win_length, center, window);
        return with_out("stft", out, [&](const Array* target) { return audio::stft(values, options, target); });
      },
      "x"_a, "n_fft"_a = 512, "hop_length"_a = 160, "win_length"_a = -1, "center"_a = true, "window"_a = nb::none(),
      nb::kw_only(), "out"_a = nb::none(), "complex64 [frames, bins] of a signal, or of each row of a batch.");
  m.def(
      "istft",
      [](const ArrayObject& spectrum, int64_t n_fft, int64_t hop_length, int64_t win_length, bool center,
         int64_t length, ArrayArg window, ArrayArg out) {
        const Array& values = to_array("istft", "spectrum", spectrum);
        const int64_t size = n_fft < 0 && values.ndim() > 0 ? 2 * (values.shape(-1) - 1) : n_fft;
        const audio::StftOptions options = to_options("istft", size, hop_length, win_length, center, window);
        return with_out("istft", out,
                        [&](const Array* target) { return audio::istft(values, options, length, target); });
      },
      "spectrum"_a, "n_fft"_a = -1, "hop_length"_a = 160, "win_length"_a = -1, "center"_a = true, "length"_a = -1,
      "window"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(), "The signal of a complex64 spectrogram.");
  m.def(
      "power_spectrum",
      [](const ArrayObject& spectrum, ArrayArg out) {
        const Array& values = to_array("power_spectrum", "spectrum", spectrum);
        return with_out("power_spectrum", out, [&](const Array* target) { return audio::power(values, target); });
      },
      "spectrum"_a, nb::kw_only(), "out"_a = nb::none(), "|z|^2 of a complex64 array.");
  m.def(
      "magnitude_spectrum",
      [](const ArrayObject& spectrum, ArrayArg out) {
        const Array& values = to_array("magnitude_spectrum", "spectrum", spectrum);
        return with_out("magnitude_spectrum", out,
                        [&](const Array* target) { return audio::magnitude(values, target); });
      },
      "spectrum"_a, nb::kw_only(), "out"_a = nb::none(), "|z| of a complex64 array.");
  m.def(
      "resample",
      [](const ArrayObject& signal, int64_t from_rate, int64_t to_rate, ArrayArg out) {
        const Array& values = to_array("resample", "signal", signal);
        return with_out("resample", out,
                        [&](const Array* target) { return audio::resample(values, from_rate, to_rate, target); });
      },
      "signal"_a, "from_rate"_a, "to_rate"_a, nb::kw_only(), "out"_a = nb::none(),
      "A float32 signal [n] or [batch, n] at another rate, [n * to_rate // from_rate].");
  m.def(
      "resample_channels",
      [](const ArrayObject& samples, int64_t channels, int64_t from_rate, int64_t to_rate) {
        const Array& values = to_array("resample", "samples", samples);
        return wrap(in_scope([&] { return audio::resample_channels(values, channels, from_rate, to_rate); }));
      },
      "samples"_a, "channels"_a, "from_rate"_a, "to_rate"_a, "The same for channels that lie side by side.");
  m.def(
      "log_mel_whisper",
      [](const ArrayObject& samples, int64_t n_mels, int64_t frames, ArrayArg out) {
        const Array& values = to_array("log_mel_whisper", "audio", samples);
        return with_out("log_mel_whisper", out,
                        [&](const Array* target) { return audio::log_mel_whisper(values, n_mels, frames, target); });
      },
      "audio"_a, "n_mels"_a = 80, "frames"_a = 3000, nb::kw_only(), "out"_a = nb::none(),
      "float32 [batch, n_mels, frames] of audio at 16 kHz, cut or padded with zeros, as Whisper wants it.");
  m.def(
      "create_mel_filterbank",
      [](int64_t n_mels, int64_t n_fft, int64_t sample_rate, double f_min, double f_max, const std::string& scale,
         bool area_norm, bool exact, DeviceArg device) {
        const audio::MelOptions options{.n_mels = n_mels,
                                        .n_fft = n_fft,
                                        .sample_rate = sample_rate,
                                        .f_min = f_min,
                                        .f_max = f_max,
                                        .scale = to_scale(scale),
                                        .norm = area_norm ? audio::MelNorm::slaney : audio::MelNorm::none};
        const Device where = to_device(device);
        return wrap(in_scope([&] { return audio::mel_filterbank(options, where, exact); }));
      },
      "n_mels"_a = 80, "n_fft"_a = 512, "sample_rate"_a = 16000, "f_min"_a = 0.0, "f_max"_a = -1.0, "scale"_a = "htk",
      "area_norm"_a = false, "exact"_a = false, "device"_a = nb::none(),
      "Triangles of the mel scale, float32 [n_mels, n_fft // 2 + 1].");
}

}  // namespace gpukit
