#include "gpukit/io/wav.h"
#include "gpukit/python/path.h"

namespace gpukit {

void bind_wav(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_audio", "The functions of pygpukit.ops.audio; internal.");
  m.def(
      "read_wav",
      [](PathArg path) -> nb::typed<nb::tuple, Array, int> {
        const std::string where = to_path("read_wav", path);
        io::WavData data = in_scope([&] { return io::read_wav(where); });
        return nb::make_tuple(wrap(std::move(data.samples)), data.rate);
      },
      "path"_a, "(samples, sample rate) of a WAV file: float32 [channels, n] on the CPU.");
  m.def(
      "write_wav",
      [](PathArg path, const ArrayObject& samples, IntArg sample_rate, StringArg format) {
        const std::string where = to_path("write_wav", path);
        const Array& values = to_array("write_wav", "samples", samples);
        const int64_t rate = to_int("write_wav", "sample_rate", sample_rate);
        const io::WavFormat kind = io::wav_format_from_name(to_text("write_wav", "format", format));
        in_scope([&] { return io::write_wav(where, values, rate, kind), 0; });
      },
      "path"_a, "samples"_a, "sample_rate"_a, "format"_a = "pcm16",
      "Writes float32 samples [n] or [channels, n] as pcm8, pcm16, pcm24, pcm32, float32 or float64.");
}

}  // namespace gpukit
