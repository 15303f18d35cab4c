// config.json of Hugging Face: what it says, within limits, and what is not computed.
#include <algorithm>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/models/llm/causal_transformer.h"

namespace gpukit::llm {

namespace {

// So much that no model is larger, and so little that products of sizes fit in 64 bits.
constexpr int64_t kMostWidth = int64_t{1} << 24, kMostVocab = int64_t{1} << 28, kMostPositions = int64_t{1} << 24;
constexpr int64_t kMostLayers = 1 << 14;

std::string shown(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

/// Members of one object; null counts as missing. All throw FormatError naming the member.
class Reader {
 public:
  explicit Reader(const Json& json, std::string where = "", std::string file = "config.json")
      : json_(json), where_(std::move(where)), file_(std::move(file)) {
    if (!json.is_object()) bad(where_.empty() ? "all of it" : where_, "be an object", json);
    if (!where_.empty()) where_ += ".";
  }

  const Json* find(std::string_view name) const {
    const Json* value = json_.find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  /// It is there, and null.
  bool is_null(std::string_view name) const {
    const Json* value = json_.find(name);
    return value != nullptr && value->is_null();
  }
  const Json& at(std::string_view name) const {
    if (const Json* value = find(name)) return *value;
    throw FormatError(file_ + ": there is no " + where_ + std::string(name));
  }

  int64_t integer(std::string_view name, int64_t low, int64_t high) const {
    return checked_integer(name, at(name), low, high);
  }
  int64_t integer(std::string_view name, int64_t low, int64_t high, int64_t otherwise) const {
    const Json* value = find(name);
    return value == nullptr ? otherwise : checked_integer(name, *value, low, high);
  }
  double number(std::string_view name, double low, double high) const {
    return checked_number(name, at(name), low, high);
  }
  double number(std::string_view name, double low, double high, double otherwise) const {
    const Json* value = find(name);
    return value == nullptr ? otherwise : checked_number(name, *value, low, high);
  }
  bool boolean(std::string_view name, bool otherwise) const {
    const Json* value = find(name);
    if (value == nullptr) return otherwise;
    if (!value->is_bool()) bad(where_ + std::string(name), "be true or false", *value);
    return value->as_bool();
  }
  std::string text(std::string_view name, const std::string& otherwise) const {
    const Json* value = find(name);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) bad(where_ + std::string(name), "be a text", *value);
    return value->as_string();
  }
  /// A list of integers, or one.
  std::vector<int64_t> integers(std::string_view name, int64_t low, int64_t high) const {
    const Json* value = find(name);
    if (value == nullptr) return {};
    if (!value->is_list()) return {checked_integer(name, *value, low, high)};
    std::vector<int64_t> list;
    for (const Json& item : value->items()) list.push_back(checked_integer(name, item, low, high));
    return list;
  }

  std::vector<std::string> texts(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return {};
    if (!value->is_list()) bad(where_ + std::string(name), "be a list of texts", *value);
    std::vector<std::string> list;
    for (const Json& item : value->items()) {
      if (!item.is_string()) bad(where_ + std::string(name), "be a list of texts", *value);
      list.push_back(item.as_string());
    }
    return list;
  }

 private:
  [[noreturn]] void bad(const std::string& name, const std::string& needed, const Json& given) const {
    throw FormatError(file_ + ": " + name + " must " + needed + ", got " + shown(given));
  }
  int64_t checked_integer(std::string_view name, const Json& value, int64_t low, int64_t high) const {
    if (!value.is_integer() || value.as_integer() < low || value.as_integer() > high)
      bad(where_ + std::string(name), "be an integer from " + std::to_string(low) + " to " + std::to_string(high),
          value);
    return value.as_integer();
  }
  double checked_number(std::string_view name, const Json& value, double low, double high) const {
    if (!value.is_number() || !(value.as_number() >= low && value.as_number() <= high))
      bad(where_ + std::string(name), "be a number from " + Json(low).dump() + " to " + Json(high).dump(), value);
    return value.as_number();
  }

  const Json& json_;
  std::string where_, file_;
};

[[noreturn]] void unsupported(const std::string& what) { throw UnsupportedError("config.json: " + what); }
[[noreturn]] void wrong(const std::string& what) { throw FormatError("config.json: " + what); }

RopeScaling read_scaling(const Reader& rope, int64_t max_positions) {
  using Kind = RopeScaling::Kind;
  RopeScaling s;
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return s;
  if (type == "linear")
    s.kind = Kind::linear;
  else if (type == "yarn")
    s.kind = Kind::yarn;
  else if (type == "llama3")
    s.kind = Kind::llama3;
  else
    unsupported("rope scaling '" + type + "' is not one of default, linear, yarn, llama3");
  s.factor = rope.number("factor", 1e-3, 1e6);
  s.low_freq_factor = rope.number("low_freq_factor", 1e-6, 1e6, 1);
  s.high_freq_factor = rope.number("high_freq_factor", 1e-6, 1e6, 4);
  if (s.kind == Kind::llama3 && s.high_freq_factor < s.low_freq_factor)
    wrong("rope_scaling.high_freq_factor must not be below low_freq_factor");
  s.original_length = rope.integer("original_max_position_embeddings", 1, kMostPositions, max_positions);
  s.beta_fast = rope.number("beta_fast", 1e-6, 1e6, 32);
  s.beta_slow = rope.number("beta_slow", 1e-6, 1e6, 1);
  s.attention_factor = rope.number("attention_factor", 0, 1e6, 0);
  if (rope.find("mscale") != nullptr || rope.find("mscale_all_dim") != nullptr)
    unsupported("yarn with mscale is not computed");
  return s;
}

void read_rope(const Reader& json, TransformerConfig& c, double default_theta) {
  constexpr double kLeast = 1e-3, kMost = 1e30;
  c.rope_theta = json.number("rope_theta", kLeast, kMost, default_theta);
  c.rotary_fraction = json.number("partial_rotary_factor", 1e-6, 1, 1);
  const char* name = json.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  if (const Json* value = json.find(name)) {
    const Reader rope(*value, name);
    c.rope_theta = rope.number("rope_theta", kLeast, kMost, c.rope_theta);
    c.rotary_fraction = rope.number("partial_rotary_factor", 1e-6, 1, c.rotary_fraction);
    c.rope_scaling = read_scaling(rope, c.max_position_embeddings);
  }
}

void read_gpt2(const Reader& json, TransformerConfig& c) {
  c.norm = NormKind::layernorm;
  c.mlp = MlpKind::gelu;
  c.use_rope = false;
  c.hidden_size = json.integer("n_embd", 1, kMostWidth, 768);
  c.num_layers = json.integer("n_layer", 1, kMostLayers, 12);
  c.num_heads = json.integer("n_head", 1, kMostWidth, 12);
  c.max_position_embeddings = json.integer("n_positions", 1, kMostPositions, 1024);
  c.intermediate_size = json.integer("n_inner", 1, kMostWidth, 4 * c.hidden_size);
  c.norm_eps = json.number("layer_norm_epsilon", 0, 1, 1e-5);
  c.vocab_size = json.integer("vocab_size", 1, kMostVocab, 50257);
  const std::string activation = json.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh" && activation != "gelu_fast")
    unsupported("activation_function '" + activation + "' is not the tanh form of gelu");
  if (json.boolean("scale_attn_by_inverse_layer_idx", false) || !json.boolean("scale_attn_weights", true))
    unsupported("GPT-2 with other attention scales than 1 / sqrt(head_dim) is not computed");
}

struct Family {
  const char* type;
  double eps, theta;
};
// What transformers takes where config.json says nothing.
constexpr Family kFamilies[] = {{"llama", 1e-6, 1e4},      {"mistral", 1e-6, 1e4}, {"mixtral", 1e-5, 1e6},
                                {"qwen2", 1e-6, 1e4},      {"qwen3", 1e-6, 1e4},   {"qwen3_moe", 1e-6, 1e4},
                                {"llama4_text", 1e-5, 5e5}};

void read_llama(const Reader& json, TransformerConfig& c, const Family& family) {
  c.hidden_size = json.integer("hidden_size", 1, kMostWidth);
  c.num_layers = json.integer("num_hidden_layers", 1, kMostLayers);
  c.num_heads = json.integer("num_attention_heads", 1, kMostWidth);
  c.num_kv_heads = json.integer("num_key_value_heads", 1, kMostWidth, c.num_heads);
  if (c.num_heads % c.num_kv_heads != 0)
    wrong("num_attention_heads must be a multiple of num_key_value_heads, got " + std::to_string(c.num_heads) +
          " and " + std::to_string(c.num_kv_heads));
  c.intermediate_size = json.integer("intermediate_size", 1, kMostWidth);
  c.vocab_size = json.integer("vocab_size", 1, kMostVocab);
  c.head_dim = json.integer("head_dim", 1, kMostWidth, 0);
  c.max_position_embeddings = json.integer("max_position_embeddings", 1, kMostPositions, 2048);
  c.norm_eps = json.number("rms_norm_eps", 0, 1, family.eps);
  const std::string activation = json.text("hidden_act", "silu");
  if (activation != "silu") unsupported("hidden_act '" + activation + "' is not silu");
  read_rope(json, c, family.theta);
  const bool qwen = c.model_type.starts_with("qwen");
  c.qkv_bias = c.model_type == "qwen2" || json.boolean("attention_bias", false);
  c.out_bias = c.model_type != "qwen2" && json.boolean("attention_bias", false);
  c.mlp_bias = c.model_type == "llama" && json.boolean("mlp_bias", false);
  const bool windowed =
      c.model_type == "mistral" || c.model_type == "mixtral" || json.boolean("use_sliding_window", false);
  if (windowed) c.sliding_window = json.integer("sliding_window", 0, INT32_MAX, 0);
  if (json.find("max_window_layers") != nullptr && qwen)
    c.num_window_layers = std::max<int64_t>(0, c.num_layers - json.integer("max_window_layers", 0, int64_t{1} << 30));
}

void read_experts(const Reader& json, TransformerConfig& c) {
  const bool mixtral = c.model_type == "mixtral";
  // transformers writes the first name for all since version 5.
  const bool local = mixtral || json.find("num_experts") == nullptr;
  c.num_experts = json.integer(local ? "num_local_experts" : "num_experts", 1, kMostWidth);
  c.num_experts_per_tok = json.integer("num_experts_per_tok", 1, c.num_experts);
  if (mixtral) return;
  c.moe_intermediate_size = json.integer("moe_intermediate_size", 1, kMostWidth);
  c.normalize_expert_weights = json.boolean("norm_topk_prob", false);
  c.dense_layers = json.integers("mlp_only_layers", 0, c.num_layers - 1);
  const int64_t step = json.integer("decoder_sparse_step", 1, INT32_MAX, 1);
  for (int64_t layer = 0; layer < c.num_layers; ++layer)
    if ((layer + 1) % step != 0) c.dense_layers.push_back(layer);
}

// A table of cosines has a row for each position: of the ten million that Llama 4 Scout names these are served.
constexpr int64_t kMostServed = 1 << 18;

// Llama 4's text model: experts with a shared one, layers without RoPE, attention in chunks.
void read_llama4(const Reader& json, TransformerConfig& c) {
  if (json.boolean("attention_bias", false)) unsupported("llama4_text with attention_bias is not computed");
  if (c.rope_scaling.kind == RopeScaling::Kind::yarn) unsupported("llama4_text with yarn is not computed");
  c.rope_interleaved = true;
  c.max_position_embeddings = std::min(c.max_position_embeddings, kMostServed);
  c.unit_qk_norm = json.boolean("use_qk_norm", true);
  // Checkpoints have this as a bool or as a number.
  const Json* tuning = json.find("attn_temperature_tuning");
  const bool tuned = tuning != nullptr && tuning->is_integer() ? tuning->as_integer() != 0
                                                               : json.boolean("attn_temperature_tuning", true);
  if (tuned) c.attn_scale = json.number("attn_scale", 0, 1e6, 0.1);
  c.floor_scale = json.number("floor_scale", 1e-6, 1e12, 8192);
  if (!json.is_null("attention_chunk_size"))
    c.attention_chunk = json.integer("attention_chunk_size", 0, INT32_MAX, 8192);

  std::vector<int64_t> with_rope = json.integers("no_rope_layers", 0, 1);  // 1: the layer has RoPE
  const int64_t interval = json.integer("no_rope_layer_interval", 1, INT32_MAX, 4);
  if (with_rope.empty())
    for (int64_t layer = 0; layer < c.num_layers; ++layer) with_rope.push_back((layer + 1) % interval != 0 ? 1 : 0);
  if (static_cast<int64_t>(with_rope.size()) < c.num_layers)
    wrong("no_rope_layers must have a number for each of " + std::to_string(c.num_layers) + " layers, got " +
          std::to_string(with_rope.size()));
  const std::vector<std::string> types = json.texts("layer_types");
  if (!types.empty() && static_cast<int64_t>(types.size()) != c.num_layers)
    wrong("layer_types must have a name for each of " + std::to_string(c.num_layers) + " layers, got " +
          std::to_string(types.size()));
  for (int64_t layer = 0; layer < c.num_layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    if (with_rope[at] == 0) c.no_rope_layers.push_back(layer);
    const std::string type = !types.empty() ? types[at] : with_rope[at] == 0 ? "full_attention" : "chunked_attention";
    if (type == "full_attention")
      c.unchunked_layers.push_back(layer);
    else if (type != "chunked_attention")
      unsupported("layer_types '" + type + "' is not one of full_attention, chunked_attention");
  }

  c.moe_intermediate_size = c.shared_expert_size = c.intermediate_size;
  c.intermediate_size = json.integer("intermediate_size_mlp", 1, kMostWidth, 16384);
  c.num_experts = json.integer("num_local_experts", 1, kMostWidth, 16);
  c.num_experts_per_tok = json.integer("num_experts_per_tok", 1, c.num_experts, 1);
  c.sigmoid_experts = true;
  const int64_t step = json.integer("interleave_moe_layer_step", 1, INT32_MAX, 1);
  const bool listed = json.find("moe_layers") != nullptr;
  const std::vector<int64_t> moe = json.integers("moe_layers", 0, c.num_layers - 1);
  for (int64_t layer = 0; layer < c.num_layers; ++layer)
    if (listed ? std::find(moe.begin(), moe.end(), layer) == moe.end() : (layer + 1) % step != 0)
      c.dense_layers.push_back(layer);
}

void read_quantization(const Reader& json, TransformerConfig& c) {
  const char* name = "quantization_config";
  if (json.find(name) == nullptr) return;
  const Reader q(json.at(name), name);
  const std::string method = q.text("quant_method", "");
  if (method == "fp8") {
    const std::vector<int64_t> block = q.integers("weight_block_size", 1, kMostWidth);
    if (block.empty()) unsupported("fp8 weights need weight_block_size, two numbers");
    if (block.size() != 2) wrong("quantization_config.weight_block_size must be two numbers");
    if (const std::string format = q.text("fmt", "e4m3"); format != "e4m3")
      unsupported("fp8 weights of format '" + format + "'; e4m3 is computed");
    c.fp8 = Fp8Layout{block[0], block[1]};
  } else if (method == "awq" || method == "gptq") {
    const int64_t bits = q.integer("bits", 1, 64, 4);
    if (bits != 4) unsupported(method + " with " + std::to_string(bits) + " bits; 4 are computed");
    Int4Layout layout;
    layout.kind = method == "awq" ? Int4Layout::Kind::awq : Int4Layout::Kind::gptq;
    layout.group_size = q.integer("group_size", -1, kMostWidth, 128);
    if (layout.group_size == 0) wrong("quantization_config.group_size must be positive, or -1 for whole rows, got 0");
    layout.zero_minus_one = q.text("checkpoint_format", "gptq") != "gptq_v2";
    const std::string version = q.text("version", "gemm");
    if (method == "awq" && version != "gemm" && version != "GEMM")
      unsupported("awq version '" + version + "' is not gemm");
    c.int4 = layout;
  } else {
    unsupported("quantisation method '" + method + "' is not one of fp8, awq, gptq");
  }
}

}  // namespace

TransformerConfig TransformerConfig::from_json(const Json& json) {
  const Reader reader(json);
  // Of a model of texts and pictures the part that reads and writes texts.
  if (reader.text("model_type", "") == "llama4") {
    TransformerConfig text = from_json(reader.at("text_config"));
    read_quantization(reader, text);
    return text;
  }
  TransformerConfig c;
  c.model_type = reader.text("model_type", "");
  if (c.model_type.empty()) wrong("there is no model_type");
  c.tie_word_embeddings = reader.boolean("tie_word_embeddings", c.model_type == "gpt2");
  if (c.model_type == "gpt2") {
    read_gpt2(reader, c);
  } else {
    const auto* family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                      [&](const Family& f) { return c.model_type == f.type; });
    if (family == std::end(kFamilies))
      unsupported("model_type '" + c.model_type +
                  "' is not one of gpt2, llama, llama4_text, mistral, mixtral, qwen2, qwen3, qwen3_moe");
    read_llama(reader, c, *family);
    if (c.model_type == "mixtral" || c.model_type == "qwen3_moe") read_experts(reader, c);
    if (c.model_type == "llama4_text") read_llama4(reader, c);
  }
  if (c.head_dim == 0 && c.hidden_size % c.num_heads != 0)
    wrong("the width " + std::to_string(c.hidden_size) + " must be a multiple of the " + std::to_string(c.num_heads) +
          " heads");
  if (c.num_heads * c.dim() > kMostWidth)
    wrong("all heads together must be at most " + std::to_string(kMostWidth) + " wide, got " +
          std::to_string(c.num_heads * c.dim()));
  if (c.use_rope && rotary_dim(c) < 2) wrong("partial_rotary_factor leaves no dims of a head to turn");
  c.eos_token_ids = reader.integers("eos_token_id", 0, INT32_MAX);
  read_quantization(reader, c);
  try {
    c.check();
  } catch (const ArgumentError& error) {
    wrong(error.what());
  }
  return c;
}

void TransformerConfig::add_generation(const Json& json) {
  for (const int64_t id : Reader(json, "", "generation_config.json").integers("eos_token_id", 0, INT32_MAX))
    if (std::find(eos_token_ids.begin(), eos_token_ids.end(), id) == eos_token_ids.end()) eos_token_ids.push_back(id);
}

}  // namespace gpukit::llm
