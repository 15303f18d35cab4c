#include <nanobind/stl/optional.h>
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
#include "gpukit/ops/elementwise/cast.h"
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

/// What 0.2 gave as past keys: a decoder that has heard the sound, and how many tokens of each text it has read.
struct Past {
  Past(std::shared_ptr<const WhisperWeights> w, int64_t batch)
      : weights(std::move(w)), decoder(*weights, batch, batch) {}
  const std::shared_ptr<const WhisperWeights> weights;
  WhisperDecoder decoder;
  int64_t length = 0;
};

/// The weights of one layer, which belong to all.
struct PyLayerWeights {
  std::shared_ptr<const WhisperWeights> weights;
  size_t index;
  bool decoder;
};
struct PyEncoderLayer {
  PyLayerWeights layer;
};
struct PyDecoderLayer {
  PyLayerWeights layer;
};

/// [batch, ...]; one item may come without the axis of the batch.
Array as_batch(const Array& x) { return x.ndim() == 2 ? x.expand_dims(0) : x; }

std::shared_ptr<Past> start(const PyDecoder& self, const Array& given) {
  const Array encoded = as_batch(given);
  if (encoded.ndim() != 3)
    throw ShapeError("WhisperDecoder", "encoder_hidden_states", "be [batch, positions, d_model]", given.shape().str());
  auto past = std::make_shared<Past>(self.weights, encoded.shape(0));
  for (int64_t i = 0; i < encoded.shape(0); ++i) past->decoder.listen(i, encoded.select(0, i));
  return past;
}

/// [batch, tokens] or [tokens], as lists or arrays. `nested` says which.
std::vector<std::vector<int64_t>> to_texts(nb::handle value, bool& nested) {
  constexpr const char* kOp = "WhisperDecoder";
  nb::object given = nb::borrow(value);
  if (nb::hasattr(given, "tolist")) given = given.attr("tolist")();
  nested = false;
  std::vector<std::vector<int64_t>> texts;
  if (nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given))
    for (nb::handle item : to_items(kOp, "input_ids", given)) {
      nested = nb::isinstance<nb::list>(item) || nb::isinstance<nb::tuple>(item);
      if (!nested) break;
      texts.push_back(to_ints(kOp, "input_ids", item));
    }
  if (!nested) texts.assign(1, to_ints(kOp, "input_ids", given));
  for (const auto& text : texts)
    if (text.size() != texts.front().size())
      throw ShapeError(kOp, "input_ids", "have texts of one length", std::to_string(text.size()));
  return texts;
}

void check_sizes(const char* op, const WhisperConfig& config, const WhisperWeights& weights) {
  const WhisperConfig& w = weights.config;
  if (config.d_model != w.d_model || config.vocab_size != w.vocab_size || config.encoder_layers != w.encoder_layers ||
      config.decoder_layers != w.decoder_layers || config.num_mel_bins != w.num_mel_bins)
    throw ArgumentError(op, "config", "have the sizes of the weights", config.to_json().dump());
}

std::vector<PyLayerWeights> layers_of(const std::shared_ptr<const WhisperWeights>& weights, bool decoder) {
  std::vector<PyLayerWeights> layers;
  for (size_t i = 0; i < (decoder ? weights->decoder.size() : weights->encoder.size()); ++i)
    layers.push_back({weights, i, decoder});
  return layers;
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
  nb::class_<PyLayerWeights>(m, "WhisperLayerWeights", "The weights of one layer, which stay where they are.")
      .def_ro("index", &PyLayerWeights::index);
  nb::class_<WhisperWeights>(m, "WhisperWeights", "The weights of a model on a device.")
      .def(
          "__init__",
          [](WhisperWeights* self, const WhisperConfig& config, DeviceArg device, DTypeArg dtype) {
            const WhisperLoadOptions options = to_load_options(device, dtype, nb::none());
            WhisperWeights made = in_scope([&] { return WhisperWeights::zeros(config, options); });
            new (self) WhisperWeights(std::move(made));
          },
          "config"_a, nb::kw_only(), "device"_a = nb::none(), "dtype"_a = nb::none(), "All of them 0, of these sizes.")
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
      .def_prop_ro("encoder_layers", [](const std::shared_ptr<WhisperWeights>& self) { return layers_of(self, false); })
      .def_prop_ro("decoder_layers", [](const std::shared_ptr<WhisperWeights>& self) { return layers_of(self, true); })
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
  nb::class_<PyEncoderLayer>(m, "WhisperEncoderLayer", "One layer of the encoder.")
      .def(
          "__init__",
          [](PyEncoderLayer* self, const WhisperConfig& config, const PyLayerWeights& layer) {
            check_sizes("WhisperEncoderLayer", config, *layer.weights);
            if (layer.decoder)
              throw ArgumentError("WhisperEncoderLayer", "layer_weights", "be of the encoder", "one of the decoder");
            new (self) PyEncoderLayer{layer};
          },
          "config"_a, "layer_weights"_a)
      .def(
          "__call__",
          [](const PyEncoderLayer& self, const ArrayObject& x) {
            const Array& given = to_array("WhisperEncoderLayer", "x", x);
            return wrap(in_scope([&] { return encode_layer(*self.layer.weights, self.layer.index, given); }));
          },
          "x"_a, "[batch, positions, d_model] to the same, in the dtype of the weights.");
  nb::class_<PyEncoder>(m, "WhisperEncoder", "Log-mel to what the decoder listens to.")
      .def(
          "__init__",
          [](PyEncoder* self, const WhisperConfig& config, std::shared_ptr<WhisperWeights> weights) {
            check_sizes("WhisperEncoder", config, *weights);
            new (self) PyEncoder{std::move(weights)};
          },
          "config"_a, "weights"_a)
      .def_prop_ro("config", [](const PyEncoder& self) { return self.weights->config; })
      .def_prop_ro("layers",
                   [](const PyEncoder& self) {
                     std::vector<PyEncoderLayer> layers;
                     for (PyLayerWeights& l : layers_of(self.weights, false)) layers.push_back({std::move(l)});
                     return layers;
                   })
      .def(
          "__call__",
          [](const PyEncoder& self, const ArrayObject& mel) {
            const Array& given = to_array("WhisperEncoder", "mel", mel);
            return wrap(in_scope([&] { return encode(*self.weights, as_batch(given)); }));
          },
          "mel"_a, "float32 [batch, mels, 3000] or [mels, 3000] to [batch, 1500, d_model].");
}

void bind_decoder(nb::module_& m) {
  nb::class_<Past>(m, "WhisperCache", "What a decoder has heard and read so far.")
      .def_ro("length", &Past::length, "Tokens read, of each text.");
  nb::class_<PyDecoderLayer>(m, "WhisperDecoderLayer", "One layer of the decoder.")
      .def(
          "__init__",
          [](PyDecoderLayer* self, const WhisperConfig& config, const PyLayerWeights& layer) {
            check_sizes("WhisperDecoderLayer", config, *layer.weights);
            if (!layer.decoder)
              throw ArgumentError("WhisperDecoderLayer", "layer_weights", "be of the decoder", "one of the encoder");
            new (self) PyDecoderLayer{layer};
          },
          "config"_a, "layer_weights"_a)
      .def(
          "__call__",
          [](const PyDecoderLayer& self, const ArrayObject& x, const ArrayObject& encoder_hidden_states) {
            const Array& given = to_array("WhisperDecoderLayer", "x", x);
            const Array& encoded = to_array("WhisperDecoderLayer", "encoder_hidden_states", encoder_hidden_states);
            return wrap(in_scope([&] { return decode_layer(*self.layer.weights, self.layer.index, given, encoded); }));
          },
          "x"_a, "encoder_hidden_states"_a,
          "[batch, tokens, d_model] to the same, each token seeing those before it and all of the sound.");
  nb::class_<PyDecoder>(m, "WhisperDecoder", "Tokens and sound to logits, with caches of keys.")
      .def(
          "__init__",
          [](PyDecoder* self, const WhisperConfig& config, std::shared_ptr<WhisperWeights> weights) {
            check_sizes("WhisperDecoder", config, *weights);
            new (self) PyDecoder{std::move(weights)};
          },
          "config"_a, "weights"_a)
      .def_prop_ro("config", [](const PyDecoder& self) { return self.weights->config; })
      .def_prop_ro("layers",
                   [](const PyDecoder& self) {
                     std::vector<PyDecoderLayer> layers;
                     for (PyLayerWeights& l : layers_of(self.weights, true)) layers.push_back({std::move(l)});
                     return layers;
                   })
      .def(
          "__call__",
          [](const PyDecoder& self, Shown<"typing.Any"> input_ids, const ArrayObject& encoder_hidden_states,
             std::shared_ptr<Past> past_key_values) -> nb::typed<nb::tuple, Array, Past> {
            bool nested = false;
            const auto texts = to_texts(input_ids, nested);
            const Array& encoded = to_array("WhisperDecoder", "encoder_hidden_states", encoder_hidden_states);
            std::shared_ptr<Past> past = std::move(past_key_values);
            Array logits = in_scope([&] {
              if (past == nullptr) past = start(self, encoded);
              const auto batch = static_cast<int64_t>(texts.size());
              if (batch != past->decoder.num_sequences())
                throw ShapeError("WhisperDecoder", "input_ids",
                                 "have a text for each of " + std::to_string(past->decoder.num_sequences()) + " sounds",
                                 std::to_string(batch));
              const auto length = batch == 0 ? 0 : static_cast<int64_t>(texts.front().size());
              std::vector<DecoderToken> tokens;
              std::vector<int32_t> rows;
              for (int32_t text = 0; text < batch; ++text)
                for (int64_t i = 0; i < length; ++i) {
                  const int64_t id = texts[static_cast<size_t>(text)][static_cast<size_t>(i)];
                  rows.push_back(static_cast<int32_t>(tokens.size()));
                  tokens.push_back({static_cast<int32_t>(std::clamp<int64_t>(id, -1, INT32_MAX)),
                                    static_cast<int32_t>(past->length + i), text, text});
                }
              const Array all = astype(past->decoder.read(tokens, rows), DType::float32);
              past->length += length;
              return nested ? all.reshape_view({batch, length, past->decoder.vocab_size()}) : all;
            });
            return nb::make_tuple(wrap(std::move(logits)), past);
          },
          "input_ids"_a, "encoder_hidden_states"_a, "past_key_values"_a = nb::none(),
          "(float32 logits [batch, tokens, vocab], cache to go on with) for ids [batch, tokens]; [tokens, vocab] for "
          "ids "
          "[tokens].")
      .def(
          "generate",
          [](const PyDecoder& self, const ArrayObject& encoder_hidden_states, int64_t max_length, double temperature,
             IntArg top_k, nb::typed<nb::handle, nb::str> language, const std::string& task, bool timestamps,
             uint64_t seed, std::optional<bool> graphs) -> ShownObject<"list[int] | list[list[int]]"> {
            const Array& encoded = to_array("WhisperDecoder.generate", "encoder_hidden_states", encoder_hidden_states);
            SearchOptions options{.temperature = temperature,
                                  .timestamps = timestamps,
                                  .max_length = max_length,
                                  .seed = seed,
                                  .graphs = graphs};
            options.top_k = to_optional_int("WhisperDecoder.generate", "top_k", top_k).value_or(0);
            const std::string spoken =
                language.is_none() ? "en" : to_text("WhisperDecoder.generate", "language", language);
            std::vector<std::vector<int32_t>> texts = in_scope([&] {
              const WhisperFiles files = files_of(self.weights->config);
              const Array batch = as_batch(encoded);
              if (batch.ndim() != 3)
                throw ShapeError("WhisperDecoder.generate", "encoder_hidden_states", "be [batch, positions, d_model]",
                                 encoded.shape().str());
              WhisperSearch search(*self.weights, files, batch.shape(0), 1);
              std::vector<SearchJob> jobs;
              for (int64_t i = 0; i < batch.shape(0); ++i) {
                search.decoder().listen(i, batch.select(0, i));
                SearchJob& job = jobs.emplace_back();
                job.window = i;
                for (const int64_t id : files.tokens.prompt(spoken, task, timestamps))
                  job.prompt.push_back(static_cast<int32_t>(id));
              }
              std::vector<std::vector<int32_t>> found;
              for (SearchResult& result : search.run(jobs, options)) found.push_back(std::move(result.tokens));
              return found;
            });
            if (texts.size() == 1) return ShownObject<"list[int] | list[list[int]]">(nb::cast(texts.front()));
            return ShownObject<"list[int] | list[list[int]]">(nb::cast(texts));
          },
          "encoder_hidden_states"_a, "max_length"_a = 448, "temperature"_a = 1.0, "top_k"_a = nb::none(), nb::kw_only(),
          "language"_a = nb::none(), "task"_a = "transcribe", "timestamps"_a = false, "seed"_a = 0,
          "graphs"_a = nb::none(),
          "Token ids of the text, without the prompt and the end; a list of them for several sounds. `graphs`: a token "
          "is "
          "one graph; by default on a GPU.");
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
