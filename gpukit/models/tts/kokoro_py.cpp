#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/models/tts/kokoro.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using tts::Kokoro;
using tts::KokoroConfig;
using tts::KokoroStages;
using tts::Utterance;
using tts::Vocabulary;

nb::typed<nb::dict, nb::str, Array> stages_dict(const KokoroStages& s) {
  nb::dict out;
  const std::pair<const char*, const Array&> parts[] = {{"bert", s.bert},
                                                        {"encoded", s.encoded},
                                                        {"d", s.d},
                                                        {"f0", s.f0},
                                                        {"energy", s.energy},
                                                        {"text", s.text},
                                                        {"decoder_in", s.decoder_in},
                                                        {"decoder_out", s.decoder_out}};
  for (const auto& [name, array] : parts) out[name] = python::wrap(Array(array));
  return out;
}

}  // namespace

void bind_kokoro(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_tts", "The networks of pygpukit.tts; internal.");
  nb::class_<Kokoro>(m, "Kokoro", "The networks of a Kokoro checkpoint, on one device in one dtype.")
      .def_static(
          "open",
          [](StringArg folder, DeviceArg device, DTypeArg dtype) {
            const std::string path = to_text("Kokoro.open", "folder", folder);
            const Device where = to_device(device);
            const DType type = to_dtype(dtype);
            return in_scope([&] { return Kokoro::open(path, where, type); });
          },
          "folder"_a, "device"_a = nb::none(), "dtype"_a = "float32", "Of a folder with config.json and SafeTensors.")
      .def_prop_ro(
          "config_json", [](const Kokoro& k) { return k.config().to_json().dump(); }, "config.json as read.")
      .def(
          "say",
          [](const Kokoro& self, const std::vector<int32_t>& ids, const std::vector<float>& style, double speed,
             std::optional<uint64_t> seed) {
            KokoroStages stages;
            Utterance said =
                in_scope([&] { return self.say(ids, style, speed, {.seed = seed, .offset = 0}, &stages); });
            return nb::make_tuple(wrap(std::move(said.audio)), said.frames, said.unrounded, stages_dict(stages));
          },
          "ids"_a, "style"_a, "speed"_a = 1.0, "seed"_a = nb::none(),
          "(audio, frames, frames before rounding, what the networks hand on) of ids without pads.");
}

}  // namespace gpukit
