#include "gpukit/ops/audio/spectral.h"

#include "gpukit/ops/audio/onset.h"
#include "gpukit/ops/audio/pitch.h"
#include "gpukit/ops/audio/signal_py.h"

namespace gpukit {
namespace {

using namespace python;

void bind_pitch(nb::module_& m) {
  m.def(
      "autocorrelation",
      [](SignalArg samples, int64_t max_lag, ArrayArg out) {
        const Signal signal = to_signal("autocorrelation", "audio", samples);
        return with_out("autocorrelation", out,
                        [&](const Array* target) { return audio::autocorrelation(signal.samples, max_lag, target); });
      },
      "audio"_a, "max_lag"_a, nb::kw_only(), "out"_a = nb::none(),
      "[..., max_lag]: the sum of audio[i] * audio[i + lag] for lags from 0 up.");
  m.def(
      "detect_pitch_yin",
      [](SignalArg samples, int64_t sample_rate, double f_min, double f_max, double threshold) {
        constexpr const char* kOp = "detect_pitch_yin";
        const Signal signal = to_signal(kOp, "audio", samples);
        const audio::YinOptions options{
            .sample_rate = static_cast<double>(sample_rate), .f_min = f_min, .f_max = f_max, .threshold = threshold};
        return in_scope([&] { return audio::pitch_yin_whole(signal.samples, options); });
      },
      "audio"_a, "sample_rate"_a = 16000, "f_min"_a = 50.0, "f_max"_a = 500.0, "threshold"_a = 0.1,
      "The pitch of a signal [n] in Hz, 0 where it has none. Waits for the device.");
  m.def(
      "detect_pitch_yin_frames",
      [](SignalArg samples, int64_t sample_rate, int64_t frame_size, int64_t hop_size, double f_min, double f_max,
         double threshold, ArrayArg out) {
        constexpr const char* kOp = "detect_pitch_yin_frames";
        const Signal signal = to_signal(kOp, "audio", samples);
        const audio::YinOptions options{.sample_rate = static_cast<double>(sample_rate),
                                        .frame_size = frame_size,
                                        .hop_size = hop_size,
                                        .f_min = f_min,
                                        .f_max = f_max,
                                        .threshold = threshold};
        return with_out(kOp, out,
                        [&](const Array* target) { return audio::pitch_yin(signal.samples, options, target); });
      },
      "audio"_a, "sample_rate"_a = 16000, "frame_size"_a = 1024, "hop_size"_a = 256, "f_min"_a = 50.0,
      "f_max"_a = 500.0, "threshold"_a = 0.1, nb::kw_only(), "out"_a = nb::none(),
      "The pitch of each frame in Hz, 0 where it has none: [..., 1 + (n - frame_size) // hop_size].");
}

void bind_frames(nb::module_& m) {
  m.def(
      "spectral_centroid",
      [](const ArrayObject& spectrum, int64_t sample_rate, ArrayArg out) {
        const Array& given = to_array("spectral_centroid", "spectrum", spectrum);
        return with_out("spectral_centroid", out, [&](const Array* target) {
          return audio::spectral_centroid(given, static_cast<double>(sample_rate), target);
        });
      },
      "spectrum"_a, "sample_rate"_a = 16000, nb::kw_only(), "out"_a = nb::none(),
      "The mean frequency in Hz of each frame of [..., bins].");
  m.def(
      "spectral_bandwidth",
      [](const ArrayObject& spectrum, const ArrayObject& centroids, int64_t sample_rate, double p, ArrayArg out) {
        const Array& given = to_array("spectral_bandwidth", "spectrum", spectrum);
        const Array& middles = to_array("spectral_bandwidth", "centroids", centroids);
        return with_out("spectral_bandwidth", out, [&](const Array* target) {
          return audio::spectral_bandwidth(given, middles, static_cast<double>(sample_rate), p, target);
        });
      },
      "spectrum"_a, "centroids"_a, "sample_rate"_a = 16000, "p"_a = 2.0, nb::kw_only(), "out"_a = nb::none(),
      "How far each frame of [..., bins] spreads around its centroid, in Hz.");
  m.def(
      "spectral_rolloff",
      [](const ArrayObject& spectrum, int64_t sample_rate, double roll_percent, ArrayArg out) {
        const Array& given = to_array("spectral_rolloff", "spectrum", spectrum);
        return with_out("spectral_rolloff", out, [&](const Array* target) {
          return audio::spectral_rolloff(given, static_cast<double>(sample_rate), roll_percent, target);
        });
      },
      "spectrum"_a, "sample_rate"_a = 16000, "roll_percent"_a = 0.85, nb::kw_only(), "out"_a = nb::none(),
      "The frequency in Hz up to which a part of each frame's sum lies.");
  m.def(
      "spectral_flatness",
      [](const ArrayObject& spectrum, ArrayArg out) {
        const Array& given = to_array("spectral_flatness", "spectrum", spectrum);
        return with_out("spectral_flatness", out,
                        [&](const Array* target) { return audio::spectral_flatness(given, target); });
      },
      "spectrum"_a, nb::kw_only(), "out"_a = nb::none(), "The geometric over the arithmetic mean of each frame.");
  m.def(
      "spectral_contrast",
      [](const ArrayObject& spectrum, int64_t n_bands, double alpha, int64_t sample_rate, double f_min, ArrayArg out) {
        const Array& given = to_array("spectral_contrast", "spectrum", spectrum);
        const audio::ContrastOptions options{
            .n_bands = n_bands, .alpha = alpha, .sample_rate = static_cast<double>(sample_rate), .f_min = f_min};
        return with_out("spectral_contrast", out,
                        [&](const Array* target) { return audio::spectral_contrast(given, options, target); });
      },
      "spectrum"_a, "n_bands"_a = 6, "alpha"_a = 0.2, nb::kw_only(), "sample_rate"_a = 16000, "f_min"_a = 200.0,
      "out"_a = nb::none(),
      "Peak over valley in dB of what lies below f_min and of n_bands octaves above: [..., n_bands + 1].");
  m.def(
      "zero_crossing_rate",
      [](SignalArg samples, int64_t frame_size, int64_t hop_size, ArrayArg out) {
        const Signal signal = to_signal("zero_crossing_rate", "audio", samples);
        return with_out("zero_crossing_rate", out, [&](const Array* target) {
          return audio::zero_crossing_rate(signal.samples, frame_size, hop_size, target);
        });
      },
      "audio"_a, "frame_size"_a = 512, "hop_size"_a = 256, nb::kw_only(), "out"_a = nb::none(),
      "Changes of sign over frame_size - 1: [..., 1 + (n - frame_size) // hop_size].");
}

void bind_onset(nb::module_& m) {
  m.def(
      "onset_strength",
      [](SignalArg samples, int64_t sample_rate, int64_t n_fft, int64_t hop_length, int64_t n_mels, double f_min,
         double f_max, int64_t lag, int64_t max_size, ArrayArg out) {
        const Signal signal = to_signal("onset_strength", "audio", samples);
        const audio::MelOptions bands{.n_mels = n_mels,
                                      .n_fft = n_fft,
                                      .sample_rate = sample_rate,
                                      .f_min = f_min,
                                      .f_max = f_max,
                                      .scale = audio::MelScale::slaney,
                                      .norm = audio::MelNorm::slaney};
        const audio::OnsetOptions options{.n_fft = n_fft, .hop_length = hop_length, .lag = lag, .max_size = max_size};
        return with_out("onset_strength", out, [&](const Array* target) {
          return audio::onset_strength(signal.samples, bands, options, target);
        });
      },
      "audio"_a, "sample_rate"_a = 16000, "n_fft"_a = 2048, "hop_length"_a = 512, "n_mels"_a = 128, "f_min"_a = 0.0,
      "f_max"_a = -1.0, "lag"_a = 1, "max_size"_a = 1, nb::kw_only(), "out"_a = nb::none(),
      "How much louder the mel bands get, in dB: [..., 1 + n // hop_length].");
  m.def(
      "onset_peaks",
      [](const ArrayObject& onset_envelope, int64_t sample_rate, int64_t hop_length, double delta, ArrayArg out) {
        const Array& given = to_array("onset_peaks", "onset_envelope", onset_envelope);
        const audio::PeakOptions options{
            .sample_rate = static_cast<double>(sample_rate), .hop_length = hop_length, .delta = delta};
        return with_out("onset_peaks", out,
                        [&](const Array* target) { return audio::onset_peaks(given, options, target); });
      },
      "onset_envelope"_a, "sample_rate"_a = 16000, "hop_length"_a = 512, "delta"_a = 0.07, nb::kw_only(),
      "out"_a = nb::none(), "bool [..., frames]: where the strengths have peaks.");
  m.def(
      "onset_detect",
      [](const ArrayObject& onset_envelope, int64_t sample_rate, int64_t hop_length, double delta) {
        const Array& given = to_array("onset_detect", "onset_envelope", onset_envelope);
        const audio::PeakOptions options{
            .sample_rate = static_cast<double>(sample_rate), .hop_length = hop_length, .delta = delta};
        return wrap(in_scope([&] { return audio::onset_detect(given, options); }));
      },
      "onset_envelope"_a, "sample_rate"_a = 16000, "hop_length"_a = 512, "delta"_a = 0.07,
      "The frames, int64, where strengths [frames] have peaks. Waits for the device.");
}

}  // namespace

void bind_spectral(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_audio_features", "What pygpukit.ops.audio measures and changes; internal.");
  bind_pitch(m);
  bind_frames(m);
  bind_onset(m);
}

}  // namespace gpukit
