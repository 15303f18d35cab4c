#include "gpukit/ops/audio/vocoder.h"

#include <nanobind/stl/vector.h>

#include "gpukit/python/bind.h"

namespace gpukit {

void bind_vocoder(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_audio", "The functions of pygpukit.ops.audio; internal.");
  m.def(
      "harmonic_source",
      [](const ArrayObject& f0, const std::vector<float>& mix, float bias, ArrayArg noise, double rate, int64_t step,
         ArrayArg out) {
        const Array& pitch = to_array("harmonic_source", "f0", f0);
        const Array* random = to_optional_array("harmonic_source", "noise", noise);
        const audio::HarmonicOptions options{.rate = rate, .step = step, .mix = mix, .bias = bias};
        return with_out("harmonic_source", out,
                        [&](const Array* target) { return audio::harmonic_source(pitch, options, random, target); });
      },
      "f0"_a, "mix"_a, "bias"_a = 0.0f, "noise"_a = nb::none(), "rate"_a = 24000.0, "step"_a = 300, nb::kw_only(),
      "out"_a = nb::none(), "Samples of a mix of harmonics of f0, which is in Hz and has one value for each step.");
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
