#include "gpukit/models/llm/random_model.h"

#include <cmath>
#include <tuple>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/models/llm/model_spec.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/quantize/quantize.h"
#include "gpukit/ops/random/random.h"

namespace gpukit::llm {

namespace {

class Maker {
 public:
  Maker(const TransformerConfig& config, Device device, const LoadOptions& options, uint64_t seed)
      : config_(config),
        spec_(find_model_spec(config.model_type)),
        device_(device),
        options_(options),
        dtype_(options.dtype.value_or(DType::float32)),
        generator_(seed) {
    if (dtype_ != DType::float16 && dtype_ != DType::bfloat16 && dtype_ != DType::float32)
      throw DTypeError("random_model", "dtype", "be float16, bfloat16 or float32", name(dtype_));
    if (config.fp8 || config.int4)
      throw UnsupportedError("random_model: name a format with quantize instead of a checkpoint's quantization_config");
  }

  CausalTransformer::Parts make() {
    CausalTransformer::Parts parts;
    const int64_t width = config_.hidden_size;
    parts.embed_tokens = numbers({config_.vocab_size, width}, 1.0);
    if (spec_.use_position_embed) parts.position_embed = numbers({config_.max_position_embeddings, width}, 0.1);
    const auto [cos, sin] = make_rope_tables(config_, device_);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      TransformerBlock block;
      block.attn_norm = norm();
      block.mlp_norm = norm();
      block.attn = attention(layer);
      if (config_.has_rope(layer)) std::tie(block.attn.cos, block.attn.sin) = std::tie(cos, sin);
      if (config_.is_moe_layer(layer))
        block.mlp = experts();
      else
        block.mlp = mlp();
      parts.blocks.push_back(std::move(block));
    }
    parts.final_norm = norm();
    parts.head =
        Weight::for_few_rows(config_.tie_word_embeddings ? parts.embed_tokens : matrix(config_.vocab_size, width));
    if (config_.tie_word_embeddings) parts.embed_tokens = parts.head.parts().data;
    return parts;
  }

 private:
  Array numbers(const Dims& shape, double size) {
    return random::uniform({.shape = shape, .dtype = dtype_, .device = device_, .generator = &generator_}, -size, size);
  }
  /// Of unit variance times a row of unit variance.
  Array matrix(int64_t rows, int64_t columns) {
    return numbers({rows, columns}, std::sqrt(3.0 / static_cast<double>(columns)));
  }
  Weight weight(int64_t rows, int64_t columns) {
    const Array dense = matrix(rows, columns);
    if (!options_.quantize) return Weight::for_few_rows(dense);
    return Weight::quantize(dense, *options_.quantize,
                            weight_quantization(*options_.quantize, options_.group, columns));
  }
  ExpertWeights expert_weights(int64_t rows, int64_t columns) {
    const Array dense = numbers({config_.num_experts, rows, columns}, std::sqrt(3.0 / static_cast<double>(columns)));
    if (!options_.quantize) return ExpertWeights(dense);
    return ExpertWeights(
        quantize(dense, *options_.quantize, weight_quantization(*options_.quantize, options_.group, columns)));
  }
  Array row(int64_t size) { return numbers({size}, 0.1); }

  Norm norm() {
    Norm n{ones({config_.hidden_size}, dtype_, device_), {}, config_.norm_eps};
    if (config_.norm == NormKind::layernorm) n.beta = row(config_.hidden_size);
    return n;
  }

  AttentionLayer attention(int64_t layer) {
    AttentionLayer a;
    a.num_heads = config_.num_heads;
    a.num_kv_heads = config_.kv_heads();
    a.dim = config_.dim();
    a.norm_eps = config_.norm_eps;
    set_position_rules(config_, layer, &a);
    a.qkv = {weight(config_.qkv_size(), config_.hidden_size)};
    if (!spec_.q_bias.empty()) a.qkv_bias = row(config_.qkv_size());
    a.out.weight = weight(config_.hidden_size, a.num_heads * a.dim);
    if (!spec_.o_bias.empty()) a.out.bias = row(config_.hidden_size);
    if (spec_.use_qk_norm || (config_.unit_qk_norm && config_.has_rope(layer)))
      a.q_norm = a.k_norm = ones({a.dim}, dtype_, device_);
    return a;
  }

  MlpLayer mlp() {
    const int64_t width = config_.hidden_size, inner = config_.mlp_size();
    MlpLayer m;
    if (config_.mlp == MlpKind::silu) m.gate.weight = weight(inner, width);
    m.up.weight = weight(inner, width);
    m.down.weight = weight(width, inner);
    if (!spec_.fc1_bias.empty()) m.up.bias = row(inner);
    if (!spec_.fc2_bias.empty()) m.down.bias = row(width);
    return m;
  }

  MoeLayer experts() {
    const int64_t width = config_.hidden_size, inner = config_.expert_size(), shared = config_.shared_expert_size;
    MoeLayer m;
    m.options.top_k = config_.num_experts_per_tok;
    m.options.normalize = config_.normalize_expert_weights;
    m.options.sigmoid_input = config_.sigmoid_experts;
    m.weights.router = Weight(matrix(config_.num_experts, width));
    m.weights.gate_up = expert_weights(2 * inner, width);
    m.weights.down = expert_weights(width, inner);
    if (shared > 0) {
      m.weights.shared_gate_up = weight(2 * shared, width);
      m.weights.shared_down = weight(width, shared);
    }
    return m;
  }

  const TransformerConfig& config_;
  const ModelSpec& spec_;
  Device device_;
  const LoadOptions& options_;
  DType dtype_;
  random::Generator generator_;
};

}  // namespace

std::shared_ptr<const CausalTransformer> random_model(const TransformerConfig& config, Device device,
                                                      const LoadOptions& options, uint64_t seed) {
  config.check();
  return std::make_shared<const CausalTransformer>(config, Maker(config, device, options, seed).make());
}

}  // namespace gpukit::llm
