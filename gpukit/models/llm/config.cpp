#include "gpukit/models/llm/config.h"

#include <algorithm>

#include "gpukit/base/error.h"

namespace gpukit::llm {

namespace {

constexpr const char* kOp = "TransformerConfig";

const Json* find(const Json& json, std::string_view name) {
  const Json* value = json.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}
int64_t integer(const Json& json, std::string_view name, int64_t otherwise) {
  const Json* value = find(json, name);
  return value == nullptr ? otherwise : value->as_integer();
}
double number(const Json& json, std::string_view name, double otherwise) {
  const Json* value = find(json, name);
  return value == nullptr ? otherwise : value->as_number();
}
bool boolean(const Json& json, std::string_view name, bool otherwise) {
  const Json* value = find(json, name);
  return value == nullptr ? otherwise : value->as_bool();
}
std::string text(const Json& json, std::string_view name, const std::string& otherwise) {
  const Json* value = find(json, name);
  return value == nullptr ? otherwise : value->as_string();
}
std::vector<int64_t> integers(const Json& json, std::string_view name) {
  const Json* value = find(json, name);
  if (value == nullptr) return {};
  if (value->is_integer()) return {value->as_integer()};
  std::vector<int64_t> list;
  for (const Json& item : value->items()) list.push_back(item.as_integer());
  return list;
}

[[noreturn]] void unsupported(const std::string& what) { throw UnsupportedError("config.json: " + what); }

RopeScaling read_scaling(const Json& rope, int64_t max_positions) {
  using Kind = RopeScaling::Kind;
  RopeScaling s;
  const std::string type = text(rope, "rope_type", text(rope, "type", "default"));
  if (type == "default") return s;
  if (type == "linear")
    s.kind = Kind::linear;
  else if (type == "yarn")
    s.kind = Kind::yarn;
  else if (type == "llama3")
    s.kind = Kind::llama3;
  else
    unsupported("rope scaling '" + type + "' is not one of default, linear, yarn, llama3");
  s.factor = rope.at("factor").as_number();
  s.low_freq_factor = number(rope, "low_freq_factor", 1);
  s.high_freq_factor = number(rope, "high_freq_factor", 4);
  s.original_length = integer(rope, "original_max_position_embeddings", max_positions);
  s.beta_fast = number(rope, "beta_fast", 32);
  s.beta_slow = number(rope, "beta_slow", 1);
  s.attention_factor = number(rope, "attention_factor", 0);
  if (find(rope, "mscale") != nullptr || find(rope, "mscale_all_dim") != nullptr)
    unsupported("yarn with mscale is not computed");
  return s;
}

void read_rope(const Json& json, TransformerConfig& c, double default_theta) {
  c.rope_theta = number(json, "rope_theta", default_theta);
  c.rotary_fraction = number(json, "partial_rotary_factor", 1);
  const Json* rope = find(json, "rope_scaling");
  if (rope == nullptr) rope = find(json, "rope_parameters");
  if (rope == nullptr) return;
  c.rope_theta = number(*rope, "rope_theta", c.rope_theta);
  c.rotary_fraction = number(*rope, "partial_rotary_factor", c.rotary_fraction);
  c.rope_scaling = read_scaling(*rope, c.max_position_embeddings);
}

void read_gpt2(const Json& json, TransformerConfig& c) {
  c.norm = NormKind::layernorm;
  c.mlp = MlpKind::gelu;
  c.use_rope = false;
  c.hidden_size = integer(json, "n_embd", 768);
  c.num_layers = integer(json, "n_layer", 12);
  c.num_heads = integer(json, "n_head", 12);
  c.max_position_embeddings = integer(json, "n_positions", 1024);
  c.intermediate_size = integer(json, "n_inner", 4 * c.hidden_size);
  c.norm_eps = number(json, "layer_norm_epsilon", 1e-5);
  c.vocab_size = integer(json, "vocab_size", 50257);
  const std::string activation = text(json, "activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh" && activation != "gelu_fast")
    unsupported("activation_function '" + activation + "' is not the tanh form of gelu");
  if (boolean(json, "scale_attn_by_inverse_layer_idx", false) || !boolean(json, "scale_attn_weights", true))
    unsupported("GPT-2 with other attention scales than 1 / sqrt(head_dim) is not computed");
}

constexpr int64_t kMostLayers = 1 << 16;  // that a list of layers is made for

struct Family {
  const char* type;
  double eps, theta;
};
// What transformers takes where config.json says nothing.
constexpr Family kFamilies[] = {{"llama", 1e-6, 1e4}, {"mistral", 1e-6, 1e4}, {"mixtral", 1e-5, 1e6},
                                {"qwen2", 1e-6, 1e4}, {"qwen3", 1e-6, 1e4},   {"qwen3_moe", 1e-6, 1e4}};

void read_llama(const Json& json, TransformerConfig& c, const Family& family) {
  c.hidden_size = json.at("hidden_size").as_integer();
  c.num_layers = json.at("num_hidden_layers").as_integer();
  c.num_heads = json.at("num_attention_heads").as_integer();
  c.num_kv_heads = integer(json, "num_key_value_heads", c.num_heads);
  c.intermediate_size = json.at("intermediate_size").as_integer();
  c.vocab_size = json.at("vocab_size").as_integer();
  c.head_dim = integer(json, "head_dim", 0);
  c.max_position_embeddings = integer(json, "max_position_embeddings", 2048);
  c.norm_eps = number(json, "rms_norm_eps", family.eps);
  const std::string activation = text(json, "hidden_act", "silu");
  if (activation != "silu") unsupported("hidden_act '" + activation + "' is not silu");
  read_rope(json, c, family.theta);
  const bool windowed =
      c.model_type == "mistral" || c.model_type == "mixtral" || boolean(json, "use_sliding_window", false);
  if (windowed) c.sliding_window = integer(json, "sliding_window", 0);
  if (const Json* first = find(json, "max_window_layers"); first != nullptr && c.model_type.starts_with("qwen"))
    c.num_window_layers = std::max<int64_t>(0, c.num_layers - first->as_integer());
}

void read_experts(const Json& json, TransformerConfig& c) {
  c.num_experts_per_tok = json.at("num_experts_per_tok").as_integer();
  if (c.model_type == "mixtral") {
    c.num_experts = json.at("num_local_experts").as_integer();
    return;
  }
  c.num_experts = json.at("num_experts").as_integer();
  c.moe_intermediate_size = json.at("moe_intermediate_size").as_integer();
  c.normalize_expert_weights = boolean(json, "norm_topk_prob", false);
  c.dense_layers = integers(json, "mlp_only_layers");
  if (c.num_layers > kMostLayers)
    throw FormatError("config.json: num_hidden_layers must be at most " + std::to_string(kMostLayers) + ", got " +
                      std::to_string(c.num_layers));
  const int64_t step = integer(json, "decoder_sparse_step", 1);
  if (step < 1) throw FormatError("config.json: decoder_sparse_step must be positive, got " + std::to_string(step));
  for (int64_t layer = 0; layer < c.num_layers; ++layer)
    if ((layer + 1) % step != 0) c.dense_layers.push_back(layer);
}

void read_quantization(const Json& json, TransformerConfig& c) {
  const Json* q = find(json, "quantization_config");
  if (q == nullptr) return;
  const std::string method = text(*q, "quant_method", "");
  if (method == "fp8") {
    const std::vector<int64_t> block = integers(*q, "weight_block_size");
    if (block.size() != 2) unsupported("fp8 weights need weight_block_size, two numbers");
    c.fp8 = Fp8Layout{block[0], block[1]};
  } else if (method == "awq" || method == "gptq") {
    const int64_t bits = integer(*q, "bits", 4);
    if (bits != 4) unsupported(method + " with " + std::to_string(bits) + " bits; 4 are computed");
    Int4Layout layout;
    layout.kind = method == "awq" ? Int4Layout::Kind::awq : Int4Layout::Kind::gptq;
    layout.group_size = integer(*q, "group_size", 128);
    layout.zero_minus_one = text(*q, "checkpoint_format", "gptq") != "gptq_v2";
    if (method == "awq" && text(*q, "version", "gemm") != "gemm" && text(*q, "version", "gemm") != "GEMM")
      unsupported("awq version '" + text(*q, "version", "") + "' is not gemm");
    c.int4 = layout;
  } else {
    unsupported("quantisation method '" + method + "' is not one of fp8, awq, gptq");
  }
}

}  // namespace

bool TransformerConfig::is_moe_layer(int64_t layer) const {
  return is_moe() && std::find(dense_layers.begin(), dense_layers.end(), layer) == dense_layers.end();
}

int64_t TransformerConfig::window(int64_t layer) const {
  return num_window_layers < 0 || layer >= num_layers - num_window_layers ? sliding_window : 0;
}

void TransformerConfig::check() const {
  const auto positive = [](const char* field, int64_t value) {
    if (value < 1) throw ArgumentError(kOp, field, "be positive", std::to_string(value));
  };
  positive("vocab_size", vocab_size);
  positive("hidden_size", hidden_size);
  positive("num_layers", num_layers);
  positive("num_heads", num_heads);
  positive("num_kv_heads", kv_heads());
  positive("intermediate_size", mlp_size());
  positive("max_position_embeddings", max_position_embeddings);
  positive("head_dim", dim());
  if (num_heads % kv_heads() != 0)
    throw ArgumentError(kOp, "num_heads", "be a multiple of num_kv_heads", std::to_string(num_heads));
  if (head_dim == 0 && hidden_size % num_heads != 0)
    throw ArgumentError(kOp, "hidden_size", "be a multiple of num_heads", std::to_string(hidden_size));
  if (!(norm_eps >= 0)) throw ArgumentError(kOp, "norm_eps", "be positive", std::to_string(norm_eps));
  if (!(rope_theta > 0)) throw ArgumentError(kOp, "rope_theta", "be positive", std::to_string(rope_theta));
  if (!(rotary_fraction > 0 && rotary_fraction <= 1))
    throw ArgumentError(kOp, "rotary_fraction", "be in (0, 1]", std::to_string(rotary_fraction));
  if (sliding_window < 0) throw ArgumentError(kOp, "sliding_window", "not be negative", std::to_string(sliding_window));
  if (num_experts < 0) throw ArgumentError(kOp, "num_experts", "not be negative", std::to_string(num_experts));
  if (is_moe() && (num_experts_per_tok < 1 || num_experts_per_tok > num_experts))
    throw ArgumentError(kOp, "num_experts_per_tok", "be in [1, " + std::to_string(num_experts) + "]",
                        std::to_string(num_experts_per_tok));
}

TransformerConfig TransformerConfig::from_json(const Json& json) {
  TransformerConfig c;
  c.model_type = json.at("model_type").as_string();
  c.tie_word_embeddings = boolean(json, "tie_word_embeddings", c.model_type == "gpt2");
  if (c.model_type == "gpt2") {
    read_gpt2(json, c);
  } else {
    const auto* family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                      [&](const Family& f) { return c.model_type == f.type; });
    if (family == std::end(kFamilies))
      unsupported("model_type '" + c.model_type +
                  "' is not one of gpt2, llama, mistral, mixtral, qwen2, qwen3, qwen3_moe");
    read_llama(json, c, *family);
    if (c.model_type == "mixtral" || c.model_type == "qwen3_moe") read_experts(json, c);
  }
  c.eos_token_ids = integers(json, "eos_token_id");
  read_quantization(json, c);
  c.check();
  return c;
}

}  // namespace gpukit::llm
