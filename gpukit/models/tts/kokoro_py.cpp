#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/array/host.h"
#include "gpukit/base/number_text.h"
#include "gpukit/models/tts/speaker.h"
#include "gpukit/models/tts/speech_audio.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/state.h"

namespace gpukit {
namespace {

using tts::Kokoro;
using tts::KokoroConfig;
using tts::KokoroStages;
using tts::ReadText;
using tts::Script;
using tts::Speaker;
using tts::Utterance;
using tts::Vocabulary;
using tts::Voice;
using tts::VoiceFolder;

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

std::string to_path(const char* op, nb::handle value) {
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) nb::raise_python_error();
  return python::to_text(op, "path", path);
}

text::english::Dialect to_dialect(const std::string& lang) {
  if (lang == "a") return text::english::Dialect::american;
  if (lang == "b") return text::english::Dialect::british;
  throw ArgumentError("synthesize", "lang", "be 'a' (American) or 'b' (British English)", "'" + lang + "'");
}

/// The UTF-8 of a text; of half characters, bytes that are not UTF-8, which are skipped as unspoken.
std::string to_words(const char* op, nb::handle value) {
  if (!PyUnicode_Check(value.ptr())) return python::to_text(op, "text", value);
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogatepass"));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

double to_speed(nb::handle value) {
  const double speed = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw nb::type_error(("synthesize: speed must be a number, got " + python::class_of(value)).c_str());
  }
  if (!(speed >= 0.1 && speed <= 10)) throw ArgumentError("synthesize", "speed", "be 0.1 to 10", number_text(speed));
  return speed;
}

std::optional<uint64_t> to_seed(nb::handle value) {
  if (value.is_none()) return std::nullopt;
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    throw nb::type_error(("synthesize: seed must be an integer or None, got " + python::class_of(value)).c_str());
  }
  const uint64_t seed = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw ArgumentError("synthesize", "seed", "be 0 to 2**64 - 1, or None", nb::cast<std::string>(nb::str(number)));
  }
  return seed;
}

tts::Cut to_cut(bool soon) { return soon ? tts::Cut::soon : tts::Cut::whole; }

void bind_networks(nb::module_& m) {
  using namespace python;
  nb::class_<ReadText>(m, "ReadText", "What the networks know of a text before they speak.")
      .def_prop_ro(
          "durations", [](const ReadText& self) { return wrap(Array(self.durations)); },
          "float32 [steps]: frames of each id, pads included, at speed 1.");
  nb::class_<Kokoro>(m, "Kokoro", "The networks of a Kokoro checkpoint, on one device in one dtype.")
      .def_static(
          "open",
          [](PathArg folder, DeviceArg device, DTypeArg dtype) {
            const std::string path = to_path("Kokoro.open", folder);
            const Device where = to_device(device);
            const DType type = to_dtype(dtype);
            return in_scope([&] { return Kokoro::open(path, where, type); });
          },
          "folder"_a, "device"_a = nb::none(), "dtype"_a = "float32", "Of a folder with config.json and SafeTensors.")
      .def_prop_ro(
          "device", [](const Kokoro& k) { return k.device(); }, "Where the weights are.")
      .def_prop_ro(
          "dtype", [](const Kokoro& k) { return from_dtype(k.dtype()); }, "The dtype of the weights.")
      .def_prop_ro(
          "config_json", [](const Kokoro& k) { return k.config().to_json().dump(); }, "config.json as read.")
      .def(
          "say",
          [](const Kokoro& self, const std::vector<int32_t>& ids, const std::vector<float>& style, double speed,
             std::optional<uint64_t> seed) -> nb::typed<nb::tuple, Array, AnyList, AnyList, AnyDict> {
            KokoroStages stages;
            Utterance said = in_scope([&] {
              return self.say({ids, style, speed, {.seed = seed, .offset = 0}}, &stages);
            });
            return nb::make_tuple(wrap(std::move(said.audio)), said.frames, said.unrounded, stages_dict(stages));
          },
          "ids"_a, "style"_a, "speed"_a = 1.0, "seed"_a = nb::none(),
          "(audio, frames, frames before rounding, what the networks hand on) of ids without pads.")
      .def(
          "read",
          [](const Kokoro& self, const ArrayObject& ids, const ArrayObject& style, const ReadText* out) {
            const Array &a = to_array("Kokoro.read", "ids", ids), &b = to_array("Kokoro.read", "style", style);
            return in_scope([&] {
              const ReadText text = out != nullptr ? *out : self.room_for_text(a.ndim() == 1 ? a.shape(0) : 0);
              self.read(a, b, text);
              return text;
            });
          },
          "ids"_a, "style"_a, "out"_a = nb::none(),
          "The first half of say(), which a graph can capture with `out`: ids are int32 [steps] with a pad at both "
          "ends, style is [1, 256] in dtype.")
      .def(
          "speak",
          [](const Kokoro& self, const ReadText& text, const ArrayObject& steps_of_frames, const ArrayObject& style,
             std::optional<uint64_t> seed, ArrayArg out) {
            constexpr const char* kOp = "Kokoro.speak";
            const Array& steps = to_array(kOp, "steps_of_frames", steps_of_frames);
            const Array& given = to_array(kOp, "style", style);
            return with_out(kOp, out, [&](const Array* target) {
              const Array audio = target != nullptr ? *target : self.room_for_audio(steps.size());
              self.speak(text, steps, given, {.seed = seed, .offset = 0}, audio);
              return audio;
            });
          },
          "text"_a, "steps_of_frames"_a, "style"_a, "seed"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
          "The second half, from the step that each frame is of, int32 [frames]: float32 samples.")
      .def(
          "decode",
          [](const Kokoro& self, const ArrayObject& text, const ArrayObject& f0, const ArrayObject& energy,
             const ArrayObject& style) {
            const Array &a = to_array("Decoder", "asr", text), &b = to_array("Decoder", "F0", f0),
                        &c = to_array("Decoder", "N", energy), &d = to_array("Decoder", "style", style);
            return wrap(in_scope([&] { return self.decode(a, b, c, d); }));
          },
          "text"_a, "f0"_a, "energy"_a, "style"_a, "The decoder alone.")
      .def(
          "vocode",
          [](const Kokoro& self, const ArrayObject& x, const ArrayObject& f0, const ArrayObject& style,
             std::optional<uint64_t> seed) {
            const Array &a = to_array("ISTFTNet", "x", x), &b = to_array("ISTFTNet", "F0", f0),
                        &c = to_array("ISTFTNet", "style", style);
            return wrap(in_scope([&] { return self.vocode(a, b, c, {.seed = seed, .offset = 0}); }));
          },
          "x"_a, "f0"_a, "style"_a, "seed"_a = nb::none(), "The vocoder alone.")
      .def(
          "say_all",
          [](const Kokoro& self, const std::vector<std::vector<int32_t>>& ids,
             const std::vector<std::vector<float>>& styles, double speed,
             std::optional<uint64_t> seed) -> nb::typed<nb::list, Array> {
            if (ids.size() != styles.size())
              throw ArgumentError("Kokoro::say", "styles", "be as many as ids", std::to_string(styles.size()));
            std::vector<Kokoro::Request> requests;
            for (size_t i = 0; i < ids.size(); ++i)
              requests.push_back({ids[i], styles[i], speed, {.seed = seed, .offset = 0}});
            nb::list out;
            for (Utterance& said : in_scope([&] { return self.say(requests); }))
              out.append(wrap(std::move(said.audio)));
            return out;
          },
          "ids"_a, "styles"_a, "speed"_a = 1.0, "seed"_a = nb::none(), "The audio of several, made beside each other.");
}

void bind_config(nb::module_& m) {
  using namespace python;
  nb::class_<Vocabulary>(m, "Vocabulary", "Phonemes and their ids.")
      .def(
          "__init__",
          [](Vocabulary* self, StringArg config) {
            const std::string text = to_text("Vocabulary", "config", config);
            new (self) Vocabulary(KokoroConfig::from_json(Json::parse(text)));
          },
          "config"_a, "Of the JSON text of a config.")
      .def(
          "ids",
          [](const Vocabulary& self, StringArg phonemes) { return self.ids(to_text("ids", "phonemes", phonemes)); },
          "phonemes"_a, "Without pads; characters that have no id are left out.")
      .def(
          "phonemes", [](const Vocabulary& self, const std::vector<int32_t>& ids) { return self.phonemes(ids); },
          "ids"_a, "Ids that have no phoneme are left out.");
  m.def(
      "read_config",
      [](StringArg text) {
        const std::string json = to_text("read_config", "text", text);
        return KokoroConfig::from_json(Json::parse(json)).to_json().dump();
      },
      "text"_a, "The JSON text of a config with every member; strict.");
}

void bind_voices(nb::module_& m) {
  using namespace python;
  nb::class_<Voice>(m, "Voice", "A style for every length of text.")
      .def_static(
          "open",
          [](PathArg path) {
            const std::string where = to_path("Voice.open", path);
            return in_scope([&] { return Voice::open(where); });
          },
          "path"_a, "Of a .bin file: float32 [510, 1, 256].")
      .def(
          "style",
          [](const Voice& self, IntArg phonemes) {
            const float* row = self.row(to_int("style", "phonemes", phonemes));
            return std::vector<float>(row, row + tts::kStyleWidth);
          },
          "phonemes"_a, "The 256 values for a number of phonemes.")
      .def(
          "array",
          [](const Voice& self) {
            return wrap(from_host(self.data(), {tts::kVoiceRows, 1, tts::kStyleWidth}, DType::float32, Device{}));
          },
          "float32 [510, 1, 256] on the CPU.");
  m.def(
      "language_of",
      [](StringArg voice) {
        const std::string name = to_text("language_of", "voice", voice);
        return std::string(tts::dialect_of(name) == text::english::Dialect::british ? "b" : "a");
      },
      "voice"_a, "The language of a voice by its name: a or b.");
  m.def(
      "check_options", [](AnyObject speed, AnyObject seed) { to_speed(speed), static_cast<void>(to_seed(seed)); },
      "speed"_a.none(), "seed"_a.none(), "TypeError or ValueError names the one that is not possible.");
  m.def(
      "voice_names",
      [](PathArg folder) {
        const std::string where = to_path("voice_names", folder);
        return in_scope([&] { return VoiceFolder(where).names(); });
      },
      "folder"_a, "The voices of a model's folder.");
}

void bind_speaker(nb::module_& m) {
  using namespace python;
  nb::class_<Script>(m, "Script", "What will be said, in pieces that the networks take whole.")
      .def_ro("text", &Script::text, "The normalised text.")
      .def_ro("phonemes", &Script::phonemes, "All of it.")
      .def_ro("guessed", &Script::guessed, "Words of no lexicon.")
      .def_ro("skipped", &Script::skipped, "Characters and phonemes that are not spoken.")
      .def("__len__", [](const Script& self) { return self.pieces.size(); })
      .def_prop_ro(
          "pieces",
          [](const Script& self) {
            std::vector<std::pair<std::string, std::vector<int32_t>>> out;
            for (const Script::Piece& piece : self.pieces) out.emplace_back(piece.phonemes, piece.ids);
            return out;
          },
          "(phonemes, ids) of each piece.");
  nb::class_<Speaker>(m, "Speaker", "Text to speech: front end, voices and networks.")
      .def_static(
          "open",
          [](PathArg folder, DeviceArg device, DTypeArg dtype, Shown<"pygpukit.typing.PathLike | None"> lexicons) {
            const std::string path = to_path("Speaker.open", folder);
            const std::string words = lexicons.is_none() ? std::string() : to_path("Speaker.open", lexicons);
            const Device where = to_device(device);
            const DType type = to_dtype(dtype);
            return in_scope([&] { return Speaker::open(path, where, type, words); });
          },
          "folder"_a, "device"_a = nb::none(), "dtype"_a = "float32", "lexicons"_a = nb::none(),
          "Of a folder with config.json, SafeTensors and voices.")
      .def_prop_ro(
          "networks", [](const Speaker& self) { return self.networks(); }, "The networks.")
      .def_prop_ro(
          "voices", [](const Speaker& self) { return self.voices().names(); }, "Their names.")
      .def_prop_ro(
          "lexicons", [](const Speaker& self) { return std::pair(self.lexicons().gold, self.lexicons().silver); },
          "Paths of the lexicons that were found; empty for none.")
      .def(
          "voice",
          [](const Speaker& self, StringArg name) {
            const std::string which = to_text("voice", "name", name);
            return in_scope([&] { return self.voices().load(which); });
          },
          "name"_a, "A voice by name, several joined by '+' for their mean, or a .bin file.")
      .def(
          "script",
          [](const Speaker& self, StringArg text, StringArg lang, bool soon, bool normalize, int64_t most) {
            const std::string words = to_words("synthesize", text);
            const text::english::Dialect dialect = to_dialect(to_text("synthesize", "lang", lang));
            return in_scope([&] { return self.script(words, dialect, to_cut(soon), normalize, most); });
          },
          "text"_a.none(), "lang"_a = "a", "soon"_a = false, "normalize"_a = true, "most"_a = 0,
          "What a text sounds like; soon: with a short first piece; normalize: numbers and signs as words; most: "
          "phonemes of a piece, 0 for what the networks take.")
      .def(
          "script_of_phonemes",
          [](const Speaker& self, StringArg phonemes, bool soon) {
            const std::string sounds = to_text("synthesize", "phonemes", phonemes);
            return in_scope([&] { return self.script_of_phonemes(sounds, to_cut(soon)); });
          },
          "phonemes"_a.none(), "soon"_a = false, "The same of phonemes.")
      .def(
          "say",
          [](const Speaker& self, const Script& script, const Voice& voice, AnyObject speed, AnyObject seed,
             bool limit_peak, std::optional<int64_t> piece) {
            const tts::SpeechOptions options{to_speed(speed), to_seed(seed), limit_peak};
            return wrap(in_scope(
                [&] { return piece ? self.say(script, *piece, voice, options) : self.say(script, voice, options); }));
          },
          "script"_a, "voice"_a, "speed"_a.none() = 1.0, "seed"_a.none() = 0, "limit_peak"_a = true,
          "piece"_a = nb::none(), "float32 samples of a script, or of one of its pieces.");
}

void bind_speech_audio(nb::module_& m) {
  using namespace python;
  m.def(
      "join_audio",
      [](ArraysArg parts, IntArg gap_samples) {
        std::vector<Array> arrays;
        for (const nb::handle part : to_items("concatenate_audio", "audio_list", parts))
          arrays.push_back(to_array("concatenate_audio", "audio_list", part));
        const int64_t gap = to_int("concatenate_audio", "gap_samples", gap_samples);
        return wrap(in_scope([&] { return tts::join_audio(arrays, gap); }));
      },
      "parts"_a, "gap_samples"_a = 0, "float32 samples one after the other.");
  m.def(
      "limit_peak",
      [](const ArrayObject& samples) {
        const Array& x = to_array("to_wav", "audio", samples);
        return wrap(in_scope([&] {
          Array out = copy(x);
          tts::limit_peak(out);
          return out;
        }));
      },
      "samples"_a, "A copy, divided by its peak where that is above 1.");
}

}  // namespace

void bind_kokoro(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_tts", "The networks of pygpukit.tts; internal.");
  bind_config(m);
  bind_networks(m);
  bind_voices(m);
  bind_speaker(m);
  bind_speech_audio(m);
}

}  // namespace gpukit
