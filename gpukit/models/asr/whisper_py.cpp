#include "gpukit/models/asr/whisper.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/models/asr/asr_py.h"
#include "gpukit/models/asr/stream.h"
#include "gpukit/models/asr/text_ratio.h"
#include "gpukit/python/path.h"

namespace gpukit {
namespace asr {
namespace {

using namespace python;

constexpr const char* kOp = "transcribe";

std::optional<double> to_optional_number(nb::handle value) {
  return value.is_none() ? std::nullopt : std::optional(nb::cast<double>(value));
}

std::string to_optional_text(const char* argument, nb::handle value) {
  return value.is_none() ? std::string() : to_text(kOp, argument, value);
}

std::vector<double> to_temperatures(nb::handle value) {
  if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) return {nb::cast<double>(value)};
  std::vector<double> all;
  for (nb::handle item : to_items(kOp, "temperature", value, 64)) all.push_back(nb::cast<double>(item));
  return all;
}

using Model = std::shared_ptr<const Whisper>;

struct PyModel {
  Model model;
};

std::pair<std::vector<Word>, std::string> as_pair(WhisperStream::Update update) {
  return {std::move(update.words), std::move(update.pending)};
}

struct PyTokenizer {
  text::Tokenizer tokenizer;
};

std::vector<std::pair<std::string, float>> languages_of(const PyModel& self, const ArrayObject& samples) {
  const Array& sound = to_array("detect_language", "samples", samples);
  return in_scope([&] { return asr::detect_language(*self.model, sound); });
}

void bind_results(nb::module_& m) {
  nb::class_<Word>(m, "TranscriptionWord", "A word and when it was said, in seconds.")
      .def_ro("text", &Word::text, "With the space before it.")
      .def_ro("start", &Word::start)
      .def_ro("end", &Word::end)
      .def_ro("probability", &Word::probability)
      .def("__repr__", [](const Word& w) {
        return "TranscriptionWord(" + shown(from_text(w.text)) + ", start=" + std::to_string(w.start) +
               ", end=" + std::to_string(w.end) + ")";
      });
  nb::class_<Segment>(m, "TranscriptionSegment", "A part of a text and when it was said, in seconds.")
      .def(
          "__init__",
          [](Segment* self, std::string text, double start, double end, std::vector<int32_t> tokens) {
            new (self) Segment{start, end, std::move(text), std::move(tokens), 0, 0, 0, 1, 0, {}};
          },
          "text"_a, "start"_a, "end"_a, "tokens"_a = std::vector<int32_t>())
      .def_ro("text", &Segment::text)
      .def_ro("start", &Segment::start)
      .def_ro("end", &Segment::end)
      .def_ro("tokens", &Segment::tokens, "Ids, with those of times.")
      .def_ro("words", &Segment::words, "Empty unless asked for.")
      .def_ro("temperature", &Segment::temperature, "It was drawn with.")
      .def_ro("avg_logprob", &Segment::average_logprob, "Of the tokens of its window.")
      .def_ro("compression_ratio", &Segment::compression_ratio, "Of the text of its window.")
      .def_ro("no_speech_prob", &Segment::no_speech, "That its window holds no speech.")
      .def("__repr__", [](const Segment& s) {
        return "TranscriptionSegment(" + shown(from_text(s.text)) + ", start=" + std::to_string(s.start) +
               ", end=" + std::to_string(s.end) + ")";
      });
}

void bind_transcriber(nb::module_& m) {
  nb::class_<Transcriber>(m, "Transcriber", "One recording being written down, window by window.")
      .def(
          "__init__",
          [](Transcriber* self, const PyModel& model, const ArrayObject& samples,
             nb::typed<nb::handle, nb::str> language, const std::string& task, int64_t max_length, AnyArg temperature,
             int64_t beam_size, int64_t best_of, double patience, double length_penalty, bool timestamps,
             bool word_timestamps, nb::typed<nb::handle, nb::str> initial_prompt, bool condition_on_previous_text,
             AnyArg compression_ratio_threshold, AnyArg logprob_threshold, AnyArg no_speech_threshold,
             bool skip_silence, int64_t batch_size, bool suppress_tokens, uint64_t seed, double chunk_length,
             double overlap, std::optional<bool> graphs) {
            const Array& sound = to_array(kOp, "samples", samples);
            TranscribeOptions o;
            o.language = to_optional_text("language", language);
            o.task = task;
            o.temperatures = to_temperatures(temperature);
            o.search = {.beam_size = beam_size,
                        .best_of = best_of,
                        .patience = patience,
                        .length_penalty = length_penalty,
                        .timestamps = timestamps,
                        .suppress = suppress_tokens,
                        .max_length = max_length,
                        .seed = seed,
                        .graphs = graphs};
            o.compression_ratio_threshold = to_optional_number(compression_ratio_threshold);
            o.logprob_threshold = to_optional_number(logprob_threshold);
            o.no_speech_threshold = to_optional_number(no_speech_threshold);
            o.condition_on_previous_text = condition_on_previous_text;
            o.initial_prompt = to_optional_text("initial_prompt", initial_prompt);
            o.word_timestamps = word_timestamps;
            o.skip_silence = skip_silence;
            o.batch_size = batch_size;
            o.chunk_length = chunk_length;
            o.overlap = overlap;
            CallScope scope;
            new (self) Transcriber(model.model, sound, std::move(o));
          },
          "model"_a, "samples"_a, nb::kw_only(), "language"_a = nb::none(), "task"_a = "transcribe",
          "max_length"_a = 448, "temperature"_a = 0.0, "beam_size"_a = 1, "best_of"_a = 1, "patience"_a = 1.0,
          "length_penalty"_a = -1.0, "timestamps"_a = true, "word_timestamps"_a = false,
          "initial_prompt"_a = nb::none(), "condition_on_previous_text"_a = true,
          nb::arg("compression_ratio_threshold").none() = 2.4, nb::arg("logprob_threshold").none() = -1.0,
          nb::arg("no_speech_threshold").none() = 0.6, "skip_silence"_a = false, "batch_size"_a = 1,
          "suppress_tokens"_a = true, "seed"_a = 0, "chunk_length"_a = 30.0, "overlap"_a = 0.0, "graphs"_a = nb::none())
      .def(
          "step", [](Transcriber& self) { return in_scope([&] { return self.step(); }); },
          "Writes down up to batch_size windows. False when nothing is left.")
      .def_prop_ro(
          "segments", [](const Transcriber& self) { return self.segments(); }, "Those that are known so far.")
      .def_prop_ro("text", &Transcriber::text)
      .def_prop_ro("language", &Transcriber::language, "`en`; empty until it is known.")
      .def_prop_ro("duration", &Transcriber::duration, "Seconds of the recording.")
      .def_prop_ro("done", &Transcriber::done, "Seconds that are behind it.");
}

void bind_rules(nb::module_& m) {
  const auto rules_of = [](int64_t end_of_text, int64_t no_timestamps, int64_t timestamp_begin,
                           int64_t max_initial_timestamp, bool timestamps) {
    return WhisperRules{end_of_text, no_timestamps, timestamp_begin, max_initial_timestamp, timestamps};
  };
  m.def(
      "whisper_mask",
      [=](const ArrayObject& logits, const ArrayObject& texts, const ArrayObject& suppressed, int64_t end_of_text,
          int64_t no_timestamps, int64_t timestamp_begin, int64_t max_initial_timestamp, bool timestamps) {
        const Array &l = to_array("whisper_mask", "logits", logits), &t = to_array("whisper_mask", "texts", texts),
                    &s = to_array("whisper_mask", "suppressed", suppressed);
        CallScope scope;
        whisper_mask(l, t, s, rules_of(end_of_text, no_timestamps, timestamp_begin, max_initial_timestamp, timestamps));
      },
      "logits"_a, "texts"_a, "suppressed"_a, nb::kw_only(), "end_of_text"_a, "no_timestamps"_a, "timestamp_begin"_a,
      "max_initial_timestamp"_a = 50, "timestamps"_a = true, "What may not be said next becomes -inf, in place.");
  m.def(
      "whisper_advance",
      [=](const ArrayObject& texts, const ArrayObject& tokens, int64_t end_of_text, int64_t no_timestamps,
          int64_t timestamp_begin) {
        const Array &t = to_array("whisper_advance", "texts", texts),
                    &c = to_array("whisper_advance", "tokens", tokens);
        CallScope scope;
        whisper_advance(t, c, rules_of(end_of_text, no_timestamps, timestamp_begin, 50, true));
      },
      "texts"_a, "tokens"_a, nb::kw_only(), "end_of_text"_a, "no_timestamps"_a, "timestamp_begin"_a,
      "The chosen tokens become those to be read, in place.");
}

void bind_stream(nb::module_& m) {
  nb::class_<WhisperStream>(m, "WhisperStream",
                            "Speech written down while it is heard: words that stay, and text that may still change.")
      .def(
          "__init__",
          [](WhisperStream* self, const PyModel& model, nb::typed<nb::handle, nb::str> language,
             const std::string& task, AnyArg temperature, int64_t beam_size,
             nb::typed<nb::handle, nb::str> initial_prompt) {
            TranscribeOptions o;
            o.language = to_optional_text("language", language);
            o.task = task;
            o.temperatures = to_temperatures(temperature);
            o.search.beam_size = beam_size;
            o.initial_prompt = to_optional_text("initial_prompt", initial_prompt);
            CallScope scope;
            new (self) WhisperStream(model.model, std::move(o));
          },
          "model"_a, nb::kw_only(), "language"_a = nb::none(), "task"_a = "transcribe", "temperature"_a = 0.0,
          "beam_size"_a = 1, "initial_prompt"_a = nb::none())
      .def(
          "push",
          [](WhisperStream& self, const ArrayObject& samples) {
            const Array& sound = to_array("WhisperStream.push", "samples", samples);
            in_scope([&] { return self.push(to_samples(sound)), 0; });
          },
          "samples"_a, "float32 [n] at 16 kHz. Computes nothing.")
      .def(
          "update", [](WhisperStream& self) { return as_pair(in_scope([&] { return self.update(); })); },
          "(words that are new and stay, text after them as it is heard now).")
      .def(
          "finish", [](WhisperStream& self) { return as_pair(in_scope([&] { return self.finish(); })); },
          "The same for all that is left.")
      .def_prop_ro("language", &WhisperStream::language, "`en`; empty until a word is known.")
      .def_prop_ro("duration", &WhisperStream::duration, "Seconds of sound so far.")
      .def_prop_ro("held", &WhisperStream::held, "Seconds of it that are kept, to be heard again.");
}

}  // namespace
}  // namespace asr

void bind_whisper(nb::module_& parent) {
  using namespace asr;
  using namespace python;
  nb::module_ m = parent.def_submodule("_asr", "The functions of pygpukit.asr; internal.");
  bind_results(m);
  nb::class_<PyTokenizer>(m, "WhisperTokenizer", "Text to token ids and back.")
      .def(
          "__init__",
          [](PyTokenizer* self, PathArg path) {
            const std::string where = to_path("WhisperTokenizer", path);
            new (self) PyTokenizer{
                in_scope([&] { return text::Tokenizer::from_file(io::model_folder(io::find_model(where))); })};
          },
          "model_path"_a)
      .def(
          "encode",
          [](const PyTokenizer& self, StringArg text) {
            return self.tokenizer.encode(to_text("WhisperTokenizer.encode", "text", text), false);
          },
          "text"_a, "Ids of the text alone.")
      .def(
          "decode",
          [](const PyTokenizer& self, IntsArg ids, bool skip_special_tokens) {
            std::vector<int32_t> tokens;
            for (const int64_t id : to_ints("WhisperTokenizer.decode", "ids", ids))
              tokens.push_back(static_cast<int32_t>(std::clamp<int64_t>(id, -1, INT32_MAX)));
            return self.tokenizer.decode(tokens, skip_special_tokens);
          },
          "ids"_a, "skip_special_tokens"_a = true);
  nb::class_<PyModel>(m, "Whisper", "A model in memory with its tokenizer.")
      .def(
          "__init__",
          [](PyModel* self, PathArg path, DeviceArg device, DTypeArg dtype, DTypeArg quantize) {
            const std::string where = to_path("WhisperModel", path);
            const WhisperLoadOptions options = to_load_options(device, dtype, quantize);
            new (self) PyModel{in_scope([&] { return Whisper::open(where, options); })};
          },
          "path"_a, "device"_a = nb::none(), "dtype"_a = nb::none(), "quantize"_a = nb::none())
      .def_prop_ro("config", [](const PyModel& self) { return self.model->files.config; })
      .def_static(
          "from_parts",
          [](const WhisperConfig& config, const PyEncoder& encoder, const PyDecoder& decoder,
             const PyTokenizer* tokenizer) {
            auto made = std::make_shared<Whisper>(Whisper{files_of(config), encoder.weights, decoder.weights, {}});
            if (tokenizer != nullptr) made->tokenizer = tokenizer->tokenizer;
            made->check();
            return PyModel{std::move(made)};
          },
          "config"_a, "encoder"_a, "decoder"_a, "tokenizer"_a = nb::none())
      .def_prop_ro("encoder", [](const PyModel& self) { return PyEncoder{self.model->encoder}; })
      .def_prop_ro("decoder", [](const PyModel& self) { return PyDecoder{self.model->decoder}; })
      .def_prop_ro("weights",
                   [](const PyModel& self) { return std::const_pointer_cast<WhisperWeights>(self.model->encoder); })
      .def_prop_ro("languages",
                   [](const PyModel& self) {
                     std::vector<std::string> codes;
                     for (const auto& [code, id] : self.model->files.tokens.languages) codes.push_back(code);
                     return codes;
                   })
      .def("detect_language", &languages_of, "samples"_a,
           "(code, probability) of each language, likeliest first, by the first 30 s.");
  bind_transcriber(m);
  bind_stream(m);
  bind_rules(m);
  m.def(
      "compression_ratio", [](StringArg text) { return compression_ratio(to_text("compression_ratio", "text", text)); },
      "text"_a, "How far a text can be compressed.");
}

}  // namespace gpukit
