#include "gpukit/ops/audio/vocoder.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "gpukit/python/bind.h"

namespace gpukit {

void bind_vocoder(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_audio", "The functions of pygpukit.ops.audio; internal.");
  m.def(
      "harmonic_source",
      [](const ArrayObject& f0, const std::vector<float>& mix, float bias, ArrayArg noise, double rate, int64_t step,
         std::optional<uint64_t> seed, uint64_t offset, ArrayArg out) {
        const Array& pitch = to_array("harmonic_source", "f0", f0);
        const Array* random = to_optional_array("harmonic_source", "noise", noise);
        const audio::HarmonicOptions options{.rate = rate, .step = step, .mix = mix, .bias = bias};
        std::optional<random::State> state;
        if (seed) state = random::State{*seed, offset};
        return with_out("harmonic_source", out, [&](const Array* target) {
          return audio::harmonic_source(pitch, options, random, state, target);
        });
      },
      "f0"_a, "mix"_a, "bias"_a = 0.0f, "noise"_a = nb::none(), "rate"_a = 24000.0, "step"_a = 300, nb::kw_only(),
      "seed"_a = nb::none(), "offset"_a = 0, "out"_a = nb::none(),
      "Samples of a mix of harmonics of f0, which is in Hz and has one value for each step; "
      "noise: standard normal, or that of a seed.");
  m.def(
      "samples_from_logs",
      [](const ArrayObject& x, IntArg hop_length, IntArg length, ArrayArg out) {
        const Array& values = to_array("samples_from_logs", "x", x);
        const int64_t hop = to_int("samples_from_logs", "hop_length", hop_length);
        const int64_t samples = to_int("samples_from_logs", "length", length);
        return with_out("samples_from_logs", out,
                        [&](const Array* target) { return audio::samples_from_logs(values, hop, samples, target); });
      },
      "x"_a, "hop_length"_a, "length"_a, nb::kw_only(), "out"_a = nb::none(),
      "istft of spectrum_from_logs(x), in one step.");
  m.def(
      "magnitude_phase",
      [](const ArrayObject& spectrum, ArrayArg out) {
        const Array& values = to_array("magnitude_phase", "spectrum", spectrum);
        return with_out("magnitude_phase", out,
                        [&](const Array* target) { return audio::magnitude_phase(values, target); });
      },
      "spectrum"_a, nb::kw_only(), "out"_a = nb::none(),
      "[2 bins, frames]: magnitudes, then phases, of a complex64 spectrum [frames, bins].");
  m.def(
      "spectrum_from_logs",
      [](const ArrayObject& x, ArrayArg out) {
        const Array& values = to_array("spectrum_from_logs", "x", x);
        return with_out("spectrum_from_logs", out,
                        [&](const Array* target) { return audio::spectrum_from_logs(values, target); });
      },
      "x"_a, nb::kw_only(), "out"_a = nb::none(),
      "complex64 [frames, bins] of [2 bins, frames]: the exponential of the first half at the angle sin of the "
      "second.");
}

}  // namespace gpukit
