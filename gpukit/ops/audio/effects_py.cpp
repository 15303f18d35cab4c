#include "gpukit/ops/audio/effects.h"

#include "gpukit/ops/audio/complex_py.h"
#include "gpukit/ops/audio/separation.h"
#include "gpukit/ops/audio/signal_py.h"
#include "gpukit/ops/audio/tonal.h"

namespace gpukit {
namespace {

using namespace python;

audio::CqtOptions to_cqt(int64_t sample_rate, int64_t hop_length, double f_min, int64_t n_bins,
                         int64_t bins_per_octave) {
  return {.sample_rate = static_cast<double>(sample_rate),
          .hop_length = hop_length,
          .f_min = f_min,
          .n_bins = n_bins,
          .bins_per_octave = bins_per_octave};
}

void bind_tonal(nb::module_& m) {
  m.def(
      "cqt",
      [](SignalArg samples, int64_t sample_rate, int64_t hop_length, double f_min, int64_t n_bins,
         int64_t bins_per_octave, bool return_complex, ArrayArg out) {
        const Signal signal = to_signal("cqt", "audio", samples);
        const audio::CqtOptions options = to_cqt(sample_rate, hop_length, f_min, n_bins, bins_per_octave);
        return with_pairs("cqt", out, return_complex,
                          [&](const Array* target) { return audio::cqt(signal.samples, options, target); });
      },
      "audio"_a, "sample_rate"_a = 16000, "hop_length"_a = 160, "f_min"_a = 32.7, "n_bins"_a = 84,
      "bins_per_octave"_a = 12, nb::kw_only(), "return_complex"_a = false, "out"_a = nb::none(),
      "Constant-Q transform: float32 [..., frames, n_bins, 2], real and imaginary parts, or complex64 [..., frames, "
      "n_bins].");
  m.def(
      "cqt_magnitude",
      [](SignalArg samples, int64_t sample_rate, int64_t hop_length, double f_min, int64_t n_bins,
         int64_t bins_per_octave, ArrayArg out) {
        const Signal signal = to_signal("cqt_magnitude", "audio", samples);
        const audio::CqtOptions options = to_cqt(sample_rate, hop_length, f_min, n_bins, bins_per_octave);
        return with_out("cqt_magnitude", out,
                        [&](const Array* target) { return audio::cqt_magnitude(signal.samples, options, target); });
      },
      "audio"_a, "sample_rate"_a = 16000, "hop_length"_a = 160, "f_min"_a = 32.7, "n_bins"_a = 84,
      "bins_per_octave"_a = 12, nb::kw_only(), "out"_a = nb::none(), "Magnitudes of cqt, [..., frames, n_bins].");
  m.def(
      "chroma_stft",
      [](const ArrayObject& spectrum, int64_t sample_rate, int64_t n_chroma, double tuning, ArrayArg out) {
        const Array& given = to_array("chroma_stft", "spectrum", spectrum);
        return with_out("chroma_stft", out, [&](const Array* target) {
          return audio::chroma_stft(given, static_cast<double>(sample_rate), n_chroma, tuning, target);
        });
      },
      "spectrum"_a, "sample_rate"_a = 16000, "n_chroma"_a = 12, "tuning"_a = 0.0, nb::kw_only(), "out"_a = nb::none(),
      "Each frame of [..., bins] by pitch class from C up, over its largest: [..., n_chroma].");
  m.def(
      "chroma_cqt",
      [](const ArrayObject& cqt_mag, int64_t bins_per_octave, int64_t n_chroma, ArrayArg out) {
        const Array& given = to_array("chroma_cqt", "cqt_mag", cqt_mag);
        return with_out("chroma_cqt", out, [&](const Array* target) {
          return audio::chroma_cqt(given, bins_per_octave, n_chroma, target);
        });
      },
      "cqt_mag"_a, "bins_per_octave"_a = 12, nb::kw_only(), "n_chroma"_a = 12, "out"_a = nb::none(),
      "The octaves of [..., n_bins] added up, over the largest: [..., n_chroma].");
}

void bind_separation(nb::module_& m) {
  m.def(
      "hpss",
      [](const ArrayObject& stft_mag, int64_t kernel_size, double power, double margin) {
        const Array& given = to_array("hpss", "stft_mag", stft_mag);
        auto parts = in_scope([&] { return audio::hpss(given, {kernel_size, power, margin}); });
        return nb::typed<nb::tuple, Array, Array>(
            nb::make_tuple(wrap(std::move(parts.first)), wrap(std::move(parts.second))));
      },
      "stft_mag"_a, "kernel_size"_a = 31, "power"_a = 2.0, "margin"_a = 1.0,
      "(harmonic, percussive) parts of magnitudes [..., frames, bins], by medians along time and frequency.");
  m.def(
      "harmonic",
      [](const ArrayObject& stft_mag, int64_t kernel_size, double power, double margin, ArrayArg out) {
        const Array& given = to_array("harmonic", "stft_mag", stft_mag);
        return with_out("harmonic", out, [&](const Array* target) {
          return audio::harmonic(given, {kernel_size, power, margin}, target);
        });
      },
      "stft_mag"_a, "kernel_size"_a = 31, "power"_a = 2.0, "margin"_a = 1.0, nb::kw_only(), "out"_a = nb::none(),
      "The first part that hpss gives.");
  m.def(
      "percussive",
      [](const ArrayObject& stft_mag, int64_t kernel_size, double power, double margin, ArrayArg out) {
        const Array& given = to_array("percussive", "stft_mag", stft_mag);
        return with_out("percussive", out, [&](const Array* target) {
          return audio::percussive(given, {kernel_size, power, margin}, target);
        });
      },
      "stft_mag"_a, "kernel_size"_a = 31, "power"_a = 2.0, "margin"_a = 1.0, nb::kw_only(), "out"_a = nb::none(),
      "The second part that hpss gives.");
}

void bind_changes(nb::module_& m) {
  m.def(
      "griffin_lim",
      [](const ArrayObject& magnitude, int64_t n_iter, int64_t hop_length, int64_t win_length, double momentum,
         int64_t seed, ArrayArg out) {
        const Array& given = to_array("griffin_lim", "magnitude", magnitude);
        const audio::GriffinLimOptions options{
            .n_iter = n_iter, .hop_length = hop_length, .win_length = win_length, .momentum = momentum, .seed = seed};
        return with_out("griffin_lim", out,
                        [&](const Array* target) { return audio::griffin_lim(given, options, target); });
      },
      "magnitude"_a, "n_iter"_a = 32, "hop_length"_a = 160, "win_length"_a = -1, nb::kw_only(), "momentum"_a = 0.99,
      "seed"_a = 0, "out"_a = nb::none(),
      "Signals [..., (frames - 1) * hop_length] whose spectra have about the magnitudes [..., frames, bins].");
  m.def(
      "phase_vocoder",
      [](const ArrayObject& stft_output, double rate, int64_t n_fft, int64_t hop_length, bool phase_lock,
         bool return_complex, ArrayArg out) {
        constexpr const char* kOp = "phase_vocoder";
        const Array& given = to_array(kOp, "stft_output", stft_output);
        return with_pairs(kOp, out, return_complex, [&](const Array* target) {
          Temporaries temporaries(kOp);
          return audio::phase_vocoder(to_complex(kOp, "stft_output", given, temporaries), rate,
                                      {n_fft, hop_length, phase_lock}, target);
        });
      },
      "stft_output"_a, "rate"_a, "n_fft"_a = 2048, "hop_length"_a = 512, nb::kw_only(), "phase_lock"_a = true,
      "return_complex"_a = false, "out"_a = nb::none(),
      "What stft gives at another tempo: ceil(frames / rate) frames whose phases go on as fast as they did.");
  m.def(
      "time_stretch",
      [](SignalArg samples, double rate, int64_t n_fft, int64_t hop_length, bool phase_lock, ArrayArg out) {
        const Signal signal = to_signal("time_stretch", "audio", samples);
        return with_out("time_stretch", out, [&](const Array* target) {
          return audio::time_stretch(signal.samples, rate, {n_fft, hop_length, phase_lock}, target);
        });
      },
      "audio"_a, "rate"_a, "n_fft"_a = 2048, "hop_length"_a = 512, nb::kw_only(), "phase_lock"_a = true,
      "out"_a = nb::none(), "The sound at another tempo, the pitch as before: [..., round(n / rate)].");
  m.def(
      "pitch_shift",
      [](SignalArg samples, int64_t sample_rate, double n_steps, int64_t n_fft, int64_t hop_length, bool phase_lock,
         ArrayArg out) {
        const Signal signal = to_signal("pitch_shift", "audio", samples);
        return with_out("pitch_shift", out, [&](const Array* target) {
          return audio::pitch_shift(signal.samples, static_cast<double>(sample_rate), n_steps,
                                    {n_fft, hop_length, phase_lock}, target);
        });
      },
      "audio"_a, "sample_rate"_a, "n_steps"_a, "n_fft"_a = 2048, "hop_length"_a = 512, nb::kw_only(),
      "phase_lock"_a = true, "out"_a = nb::none(), "The sound n_steps semitones higher, as long as before.");
}

}  // namespace

void bind_effects(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_audio_features", "What pygpukit.ops.audio measures and changes; internal.");
  bind_tonal(m);
  bind_separation(m);
  bind_changes(m);
}

}  // namespace gpukit
