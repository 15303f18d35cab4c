// What a transformer language model looks like, as config.json of its checkpoint says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/base/json.h"
#include "gpukit/ops/rope/rope.h"

namespace gpukit::llm {

enum class NormKind { rmsnorm, layernorm };
/// silu: down(silu(gate(x)) * up(x)). gelu: fc2(gelu(fc1(x))) by the tanh form.
enum class MlpKind { silu, gelu };

/// FP8 weights of a checkpoint with one scale a block.
struct Fp8Layout {
  int64_t block_rows = 128, block_columns = 128;
};

/// int4 weights of a checkpoint, as AWQ or GPTQ store them.
struct Int4Layout {
  enum class Kind { awq, gptq } kind = Kind::awq;
  int64_t group_size = 128;
  bool zero_minus_one = true;  // GPTQ version 1 stores zero points minus one
};

struct TransformerConfig {
  std::string model_type = "llama";
  int64_t vocab_size = 32000, hidden_size = 2048, num_layers = 22, num_heads = 32;
  int64_t num_kv_heads = 0;       // 0: num_heads
  int64_t intermediate_size = 0;  // 0: 4 hidden_size
  int64_t head_dim = 0;           // 0: hidden_size / num_heads
  int64_t max_position_embeddings = 2048;
  NormKind norm = NormKind::rmsnorm;
  MlpKind mlp = MlpKind::silu;
  double norm_eps = 1e-5;
  bool use_rope = true, tie_word_embeddings = true, causal = true;
  double rope_theta = 1e4;
  RopeScaling rope_scaling;
  double rotary_fraction = 1;      // of a head's dims
  bool rope_interleaved = false;   // pairs (2i, 2i + 1)
  int64_t sliding_window = 0;      // 0: none
  int64_t num_window_layers = -1;  // the last ones; -1: all
  int64_t num_experts = 0, num_experts_per_tok = 2;
  int64_t moe_intermediate_size = 0;  // 0: intermediate_size
  // Biases that a checkpoint must have; those it has beyond them are taken too.
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool normalize_expert_weights = true;  // the gates of the chosen experts sum to 1
  std::vector<int64_t> dense_layers;     // layers with a plain MLP in a model of experts
  std::vector<int64_t> no_rope_layers;   // layers without RoPE in a model with it
  bool unit_qk_norm = false;             // q and k of layers with RoPE are divided by their root mean square
  int64_t attention_chunk = 0;           // keys of its own chunk of tokens that a layer sees; 0: all
  std::vector<int64_t> unchunked_layers;
  double attn_scale = 0, floor_scale = 8192;  // layers without RoPE: q grows with its position, see irope_scale
  bool sigmoid_experts = false;               // an expert's input is multiplied by the sigmoid of its logit
  int64_t shared_expert_size = 0;             // 0: none
  std::vector<int64_t> eos_token_ids;
  std::optional<Fp8Layout> fp8;
  std::optional<Int4Layout> int4;

  int64_t kv_heads() const { return num_kv_heads == 0 ? num_heads : num_kv_heads; }
  int64_t dim() const { return head_dim == 0 ? hidden_size / num_heads : head_dim; }
  int64_t mlp_size() const { return intermediate_size == 0 ? 4 * hidden_size : intermediate_size; }
  int64_t expert_size() const { return moe_intermediate_size == 0 ? mlp_size() : moe_intermediate_size; }
  int64_t qkv_size() const { return (num_heads + 2 * kv_heads()) * dim(); }
  bool is_moe() const { return num_experts > 0; }
  bool is_moe_layer(int64_t layer) const;
  bool has_rope(int64_t layer) const;
  /// Keys before a token that a layer sees; 0: all.
  int64_t window(int64_t layer) const;
  int64_t chunk(int64_t layer) const;

  /// Throws ArgumentError naming the field that is out of range or does not go with another.
  void check() const;
  /// Hugging Face's config.json. Throws FormatError naming a missing or wrong member, UnsupportedError naming what this
  /// library does not compute (a family, an activation, a kind of rope scaling, a quantisation).
  static TransformerConfig from_json(const Json& json);
  /// The ids that end a text by generation_config.json, beside those of config.json. Throws FormatError.
  void add_generation(const Json& json);
};

}  // namespace gpukit::llm
