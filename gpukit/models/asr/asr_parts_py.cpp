#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/models/asr/asr_py.h"
#include "gpukit/models/asr/whisper_encoder.h"
#include "gpukit/models/asr/whisper_search.h"
#include "gpukit/python/path.h"

namespace gpukit {
namespace asr {

using namespace python;

WhisperFiles files_of(const WhisperConfig& config) {
  WhisperFiles files;
  files.config = config;
  files.tokens = WhisperTokens::from_vocabulary(config.vocab_size);
  return files;
}

WhisperLoadOptions to_load_options(nb::handle device, nb::handle dtype, nb::handle quantize) {
  return {to_device(device), to_optional_dtype(dtype), to_optional_dtype(quantize)};
}

namespace {

/// What 0.2 gave as past keys: a decoder that has heard the sound, and how many tokens it has read.
struct Past {
  Past(std::shared_ptr<const WhisperWeights> w) : weights(std::move(w)), decoder(*weights, 1, 1) {}
  const std::shared_ptr<const WhisperWeights> weights;
  WhisperDecoder decoder;
  int64_t length = 0;
};

struct PyEncoder {
  std::shared_ptr<const WhisperWeights> weights;
};
struct PyDecoder {
  std::shared_ptr<const WhisperWeights> weights;
};

/// [positions, d_model], the one item of a batch where there is a batch.
Array one_item(const Array& encoded) {
  if (encoded.ndim() != 3) return encoded;
  if (encoded.shape(0) != 1)
    throw ShapeError("WhisperDecoder", "encoder_hidden_states", "be of one item", encoded.shape().str());
  return encoded.select(0, 0);
}

std::shared_ptr<Past> start(const PyDecoder& self, const Array& encoded) {
  auto past = std::make_shared<Past>(self.weights);
  past->decoder.listen(0, one_item(encoded));
  return past;
}

nb::object from_json(const Json& json) { return nb::module_::import_("json").attr("loads")(json.dump()); }

Json to_json(nb::handle value) {
  return Json::parse(nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(value)));
}

Json read_json(const std::string& path) {
  try {
    return Json::parse(files::read_file(path));
  } catch (const FormatError& e) {
    throw FormatError(path + ": " + e.what());
  }
}

void bind_config(nb::module_& m) {
  nb::class_<WhisperConfig> c(m, "WhisperConfig", "The sizes and tokens of a model, as config.json has them.");
  c.def(
       "__init__",
       [](WhisperConfig* self, nb::kwargs fields) {
         const Json known = WhisperConfig().to_json(), given = to_json(fields);
         for (const auto& [name, value] : given.members())
           if (known.find(name) == nullptr) throw nb::type_error(("WhisperConfig has no field " + name).c_str());
         new (self) WhisperConfig(WhisperConfig::from_json(given));
       },
       "fields"_a, nb::sig("def __init__(self, **fields: typing.Any) -> None"))
      .def_static(
          "from_dict", [](const AnyDict& values) { return WhisperConfig::from_json(to_json(values)); }, "config_dict"_a)
      .def_static(
          "from_json",
          [](PathArg path) {
            const std::string where = to_path("WhisperConfig.from_json", path);
            return in_scope([&] { return WhisperConfig::from_json(read_json(where)); });
          },
          "json_path"_a)
      .def_static(
          "from_pretrained",
          [](PathArg path) {
            const std::string where = to_path("WhisperConfig.from_pretrained", path);
            return in_scope([&] { return WhisperFiles::read(io::model_folder(io::find_model(where))).config; });
          },
          "model_path"_a, "Of a folder, or of a model in the Hugging Face cache of this disk.")
      .def("to_dict", [](const WhisperConfig& self) { return AnyDict(nb::cast<nb::dict>(from_json(self.to_json()))); })
      .def_prop_ro("head_dim", &WhisperConfig::head_dim)
      .def_prop_ro("is_distilled", &WhisperConfig::is_distilled)
      .def_ro("activation_function", &WhisperConfig::activation_function)
      .def_ro("suppress_tokens", &WhisperConfig::suppress_tokens)
      .def_ro("begin_suppress_tokens", &WhisperConfig::begin_suppress_tokens)
      .def("__eq__",
           [](const WhisperConfig& self, AnyArg other) {
             return nb::isinstance<WhisperConfig>(other) &&
                    self.to_json() == nb::cast<const WhisperConfig&>(other).to_json();
           })
      .def("__repr__", [](const WhisperConfig& self) { return "WhisperConfig(" + self.to_json().dump() + ")"; });
  const std::pair<const char*, int64_t WhisperConfig::*> numbers[] = {
      {"d_model", &WhisperConfig::d_model},
      {"encoder_layers", &WhisperConfig::encoder_layers},
      {"encoder_attention_heads", &WhisperConfig::encoder_attention_heads},
      {"encoder_ffn_dim", &WhisperConfig::encoder_ffn_dim},
      {"decoder_layers", &WhisperConfig::decoder_layers},
      {"decoder_attention_heads", &WhisperConfig::decoder_attention_heads},
      {"decoder_ffn_dim", &WhisperConfig::decoder_ffn_dim},
      {"vocab_size", &WhisperConfig::vocab_size},
      {"num_mel_bins", &WhisperConfig::num_mel_bins},
      {"max_source_positions", &WhisperConfig::max_source_positions},
      {"max_target_positions", &WhisperConfig::max_target_positions},
      {"bos_token_id", &WhisperConfig::bos_token_id},
      {"eos_token_id", &WhisperConfig::eos_token_id},
      {"pad_token_id", &WhisperConfig::pad_token_id},
      {"decoder_start_token_id", &WhisperConfig::decoder_start_token_id},
  };
  for (const auto& [name, field] : numbers) c.def_ro(name, field);
}

void bind_weights(nb::module_& m) {
  nb::class_<WhisperWeights>(m, "WhisperWeights", "The weights of a model on a device.")
      .def_static(
          "from_safetensors",
          [](PathArg path, const WhisperConfig* config, DeviceArg device, DTypeArg dtype, DTypeArg quantize) {
            const std::string where = to_path("WhisperWeights.from_safetensors", path);
            const WhisperLoadOptions options = to_load_options(device, dtype, quantize);
            return in_scope([&] {
              const io::TensorFile file = io::TensorFile::open(where);
              const WhisperConfig sizes =
                  config != nullptr ? *config : WhisperFiles::read(io::model_folder(file.path())).config;
              return std::make_shared<WhisperWeights>(WhisperWeights::load(file, sizes, options));
            });
          },
          "path"_a, "config"_a = nb::none(), nb::kw_only(), "device"_a = nb::none(), "dtype"_a = nb::none(),
          "quantize"_a = nb::none(), "Of a file, an index, a folder or a model in the Hugging Face cache of this disk.")
      .def_ro("config", &WhisperWeights::config)
      .def_prop_ro("dtype", [](const WhisperWeights& self) { return from_dtype(self.dtype); })
      .def_prop_ro("num_parameters", &WhisperWeights::num_parameters)
      .def_prop_ro("nbytes", &WhisperWeights::nbytes)
      .def(
          "summary",
          [](const WhisperWeights& self) {
            return "Whisper: " + std::to_string(self.encoder.size()) + " encoder and " +
                   std::to_string(self.decoder.size()) + " decoder layers of width " +
                   std::to_string(self.config.d_model) + ", " + std::to_string(self.num_parameters()) +
                   " parameters, " + std::to_string(self.nbytes()) + " bytes of " + name(self.dtype) + " on " +
                   str(self.device);
          },
          "One line about them.");
}

void bind_encoder(nb::module_& m) {
  nb::class_<PyEncoder>(m, "WhisperEncoder", "Log-mel to what the decoder listens to.")
      .def(
          "__init__",
          [](PyEncoder* self, const WhisperConfig&, std::shared_ptr<WhisperWeights> weights) {
            new (self) PyEncoder{std::move(weights)};
          },
          "config"_a, "weights"_a)
      .def(
          "__call__",
          [](const PyEncoder& self, const ArrayObject& mel) {
            const Array& given = to_array("WhisperEncoder", "mel", mel);
            return wrap(
                in_scope([&] { return encode(*self.weights, given.ndim() == 2 ? given.expand_dims(0) : given); }));
          },
          "mel"_a, "float32 [batch, mels, 3000] or [mels, 3000] to [batch, 1500, d_model].");
}

void bind_decoder(nb::module_& m) {
  nb::class_<Past>(m, "WhisperCache", "What a decoder has heard and read so far.")
      .def_ro("length", &Past::length, "Tokens read.");
  nb::class_<PyDecoder>(m, "WhisperDecoder", "Tokens and sound to logits, with caches of keys.")
      .def(
          "__init__",
          [](PyDecoder* self, const WhisperConfig&, std::shared_ptr<WhisperWeights> weights) {
            new (self) PyDecoder{std::move(weights)};
          },
          "config"_a, "weights"_a)
      .def(
          "__call__",
          [](const PyDecoder& self, IntsArg input_ids, const ArrayObject& encoder_hidden_states,
             std::shared_ptr<Past> past_key_values) -> nb::typed<nb::tuple, Array, Past> {
            const std::vector<int64_t> ids = to_ints("WhisperDecoder", "input_ids", input_ids);
            const Array& encoded = to_array("WhisperDecoder", "encoder_hidden_states", encoder_hidden_states);
            std::shared_ptr<Past> past = std::move(past_key_values);
            Array logits = in_scope([&] {
              if (past == nullptr) past = start(self, encoded);
              std::vector<DecoderToken> tokens;
              std::vector<int32_t> rows;
              for (const int64_t id : ids) {
                rows.push_back(static_cast<int32_t>(tokens.size()));
                tokens.push_back({static_cast<int32_t>(std::clamp<int64_t>(id, -1, INT32_MAX)),
                                  static_cast<int32_t>(past->length + rows.back()), 0, 0});
              }
              const std::span<const float> values = past->decoder.forward(tokens, rows);
              past->length += static_cast<int64_t>(ids.size());
              return from_host(values.data(), {static_cast<int64_t>(ids.size()), past->decoder.vocab_size()},
                               DType::float32, self.weights->device);
            });
            return nb::make_tuple(wrap(std::move(logits)), past);
          },
          "input_ids"_a, "encoder_hidden_states"_a, "past_key_values"_a = nb::none(),
          "(float32 logits [tokens, vocab], cache to go on with).")
      .def(
          "generate",
          [](const PyDecoder& self, const ArrayObject& encoder_hidden_states, int64_t max_length, double temperature,
             IntArg top_k, nb::typed<nb::handle, nb::str> language, const std::string& task, bool timestamps,
             uint64_t seed) {
            const Array& encoded = to_array("WhisperDecoder.generate", "encoder_hidden_states", encoder_hidden_states);
            SearchOptions options{
                .temperature = temperature, .timestamps = timestamps, .max_length = max_length, .seed = seed};
            options.top_k = to_optional_int("WhisperDecoder.generate", "top_k", top_k).value_or(0);
            const std::string spoken =
                language.is_none() ? "en" : to_text("WhisperDecoder.generate", "language", language);
            return in_scope([&] {
              const WhisperFiles files = files_of(self.weights->config);
              const auto past = start(self, encoded);
              SearchJob job;
              for (const int64_t id : files.tokens.prompt(spoken, task, timestamps))
                job.prompt.push_back(static_cast<int32_t>(id));
              return search(past->decoder, files, {&job, 1}, options).front().tokens;
            });
          },
          "encoder_hidden_states"_a, "max_length"_a = 448, "temperature"_a = 1.0, "top_k"_a = nb::none(), nb::kw_only(),
          "language"_a = nb::none(), "task"_a = "transcribe", "timestamps"_a = false, "seed"_a = 0,
          "Token ids of the text, without the prompt and the end.");
}

}  // namespace
}  // namespace asr

void bind_asr_parts(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_asr", "The functions of pygpukit.asr; internal.");
  asr::bind_config(m);
  asr::bind_weights(m);
  asr::bind_encoder(m);
  asr::bind_decoder(m);
}

}  // namespace gpukit
