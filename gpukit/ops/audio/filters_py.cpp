#include "gpukit/ops/audio/filters.h"
#include "gpukit/ops/audio/signal_py.h"

namespace gpukit {

void bind_filters(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_audio", "The functions of pygpukit.ops.audio; internal.");
  m.def(
      "preemphasis",
      [](SignalArg audio, double alpha, ArrayArg out) {
        return in_place("preemphasis", audio, out, [&](const Signal& signal, const Array* target) {
          return audio::preemphasis(signal.samples, alpha, target);
        });
      },
      "audio"_a, "alpha"_a = 0.97, nb::kw_only(), "out"_a = nb::none(),
      "x[i] - alpha x[i - 1], in place unless out is given.");
  m.def(
      "deemphasis",
      [](SignalArg audio, double alpha, ArrayArg out) {
        return in_place("deemphasis", audio, out, [&](const Signal& signal, const Array* target) {
          return audio::deemphasis(signal.samples, alpha, target);
        });
      },
      "audio"_a, "alpha"_a = 0.97, nb::kw_only(), "out"_a = nb::none(),
      "y[i] = x[i] + alpha y[i - 1], which undoes preemphasis; in place unless out is given.");
  m.def(
      "remove_dc",
      [](SignalArg audio, ArrayArg out) {
        return in_place("remove_dc", audio, out, [&](const Signal& signal, const Array* target) {
          return audio::remove_dc(signal.samples, target);
        });
      },
      "audio"_a, nb::kw_only(), "out"_a = nb::none(), "Takes the mean away, in place unless out is given.");
  m.def(
      "highpass_filter",
      [](SignalArg audio, double cutoff_hz, IntArg sample_rate, ArrayArg out) {
        const std::optional<int64_t> given = to_optional_int("highpass_filter", "sample_rate", sample_rate);
        return in_place("highpass_filter", audio, out, [&](const Signal& signal, const Array* target) {
          return audio::highpass_filter(signal.samples, cutoff_hz, given.value_or(signal.sample_rate.value_or(16000)),
                                        target);
        });
      },
      "audio"_a, "cutoff_hz"_a = 20.0, "sample_rate"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
      "A one-pole high-pass, in place unless out is given. The rate is that of a buffer, else 16000.");
  m.def(
      "noise_gate",
      [](SignalArg audio, double threshold, ArrayArg out) {
        return in_place("noise_gate", audio, out, [&](const Signal& signal, const Array* target) {
          return audio::noise_gate(signal.samples, threshold, target);
        });
      },
      "audio"_a, "threshold"_a = 0.01, nb::kw_only(), "out"_a = nb::none(),
      "Samples nearer to 0 than the threshold become 0, in place unless out is given.");
  m.def(
      "spectral_gate",
      [](SignalArg audio, double threshold, int64_t attack_samples, int64_t release_samples, ArrayArg out) {
        return in_place("spectral_gate", audio, out, [&](const Signal& signal, const Array* target) {
          return audio::spectral_gate(signal.samples, threshold, attack_samples, release_samples, target);
        });
      },
      "audio"_a, "threshold"_a = 0.01, "attack_samples"_a = 64, "release_samples"_a = 256, nb::kw_only(),
      "out"_a = nb::none(), "Lowers what has little energy, in place unless out is given.");
  m.def(
      "compute_short_term_energy",
      [](SignalArg audio, int64_t frame_size, ArrayArg out) {
        const Signal signal = to_signal("compute_short_term_energy", "audio", audio);
        return with_out("compute_short_term_energy", out, [&](const Array* target) {
          return audio::compute_short_term_energy(signal.samples, frame_size, target);
        });
      },
      "audio"_a, "frame_size"_a = 256, nb::kw_only(), "out"_a = nb::none(),
      "The mean square of each whole frame, [n // frame_size].");
  m.def(
      "normalize",
      [](SignalArg audio, StringArg mode, double target_db, ArrayArg out) {
        const audio::Loudness kind = audio::loudness_from_name("normalize", to_text("normalize", "mode", mode));
        return in_place("normalize", audio, out, [&](const Signal& signal, const Array* target) {
          return audio::normalize(signal.samples, kind, target_db, target);
        });
      },
      "audio"_a, "mode"_a = "peak", "target_db"_a = -20.0, nb::kw_only(), "out"_a = nb::none(),
      "All samples by one factor: the peak to 1, or the root mean square to target_db. In place unless out is given.");
  m.def(
      "check_buffer",
      [](const ArrayObject& data, IntArg sample_rate, IntArg channels) {
        const Array& samples = to_array("AudioBuffer", "data", data);
        audio::check_buffer(samples, to_int("AudioBuffer", "sample_rate", sample_rate),
                            to_int("AudioBuffer", "channels", channels));
      },
      "data"_a, "sample_rate"_a, "channels"_a, "Raises for what is no buffer of samples.");
  m.def(
      "from_pcm",
      [](const ArrayObject& samples) -> ArrayObject {
        const Array& values = to_array("from_pcm", "samples", samples);
        if (values.dtype() == DType::float32) return samples;
        return wrap(in_scope([&] { return audio::from_pcm(values); }));
      },
      "samples"_a, "float32 of int16 samples, full scale at 1; float32 samples themselves.");
  m.def(
      "to_full_scale",
      [](const ArrayObject& samples) {
        const Array& values = to_array("to_full_scale", "samples", samples);
        return wrap(in_scope([&] { return audio::to_full_scale(values); }));
      },
      "samples"_a, "float32 of samples; integers lie in [-1, 1) then.");
  m.def(
      "to_mono",
      [](const ArrayObject& samples, int64_t channels) -> ArrayObject {
        const Array& values = to_array("to_mono", "samples", samples);
        if (channels == 1) return samples;
        return wrap(in_scope([&] { return audio::to_mono(values, channels); }));
      },
      "samples"_a, "channels"_a, "The mean of two channels that lie side by side.");
}

}  // namespace gpukit
