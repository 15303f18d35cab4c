#include "gpukit/models/llm/causal_transformer.h"

#include <cmath>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/matmul/linear.h"

namespace gpukit::llm {

namespace {

constexpr const char* kOp = "CausalTransformer";

void check_weight(const char* argument, const Weight& w, int64_t rows, int64_t columns) {
  if (!w.defined()) throw ArgumentError(kOp, argument, "be a matrix", "nothing");
  if (w.rows() != rows || w.columns() != columns)
    throw ShapeError(kOp, argument, "have shape [" + std::to_string(rows) + ", " + std::to_string(columns) + "]",
                     "[" + std::to_string(w.rows()) + ", " + std::to_string(w.columns()) + "]");
}

void check_row(const char* argument, const Array& a, int64_t size, DType dtype) {
  check_shape(kOp, argument, a, {size});
  check_dtype(kOp, argument, a, dtype);
}

void check_norm(const char* argument, const Norm& norm, const TransformerConfig& c, DType dtype) {
  if (!norm.gamma.defined()) throw ArgumentError(kOp, argument, "have a weight", "nothing");
  check_row(argument, norm.gamma, c.hidden_size, dtype);
  if (norm.beta.defined()) check_row(argument, norm.beta, c.hidden_size, dtype);
}

void check_block(const TransformerBlock& block, const TransformerConfig& c, DType dtype) {
  check_norm("attn_norm", block.attn_norm, c, dtype);
  check_norm("mlp_norm", block.mlp_norm, c, dtype);
  const AttentionLayer& attn = block.attn;
  int64_t rows = 0;
  for (const Weight& part : attn.qkv) {
    check_weight("qkv_proj", part, part.rows(), c.hidden_size);
    rows += part.rows();
  }
  if (rows != c.qkv_size())
    throw ShapeError(kOp, "qkv_proj", "have " + std::to_string(c.qkv_size()) + " rows", std::to_string(rows));
  check_weight("o_proj", attn.out.weight, c.hidden_size, c.num_heads * c.dim());
  if (const auto* dense = std::get_if<MlpLayer>(&block.mlp)) {
    if (dense->gate.weight.defined()) check_weight("gate_proj", dense->gate.weight, c.mlp_size(), c.hidden_size);
    check_weight("up_proj", dense->up.weight, c.mlp_size(), c.hidden_size);
    check_weight("down_proj", dense->down.weight, c.hidden_size, c.mlp_size());
  }
}

}  // namespace

int64_t rotary_dim(const TransformerConfig& config) {
  return static_cast<int64_t>(static_cast<double>(config.dim()) * config.rotary_fraction) / 2 * 2;
}

void set_position_rules(const TransformerConfig& config, int64_t layer, AttentionLayer* attn) {
  const bool rope = config.has_rope(layer);
  attn->window = config.window(layer);
  attn->chunk = config.chunk(layer);
  attn->rope = {rope ? rotary_dim(config) : 0, config.rope_interleaved};
  attn->attn_scale = rope ? 0 : config.attn_scale;
  attn->floor_scale = config.floor_scale;
}

std::pair<Array, Array> make_rope_tables(const TransformerConfig& config, Device device) {
  if (!config.use_rope) return {};
  return rope_tables(config.max_position_embeddings, rotary_dim(config), config.rope_theta, config.rope_scaling,
                     device);
}

CausalTransformer::CausalTransformer(const TransformerConfig& config, Parts parts, std::shared_ptr<Residence> residence)
    : config_(config), parts_(std::move(parts)), residence_(std::move(residence)) {
  config_.check();
  if (!parts_.embed_tokens.defined()) throw ArgumentError(kOp, "embed_tokens", "be an array", "nothing");
  check_shape(kOp, "embed_tokens", parts_.embed_tokens, {config_.vocab_size, config_.hidden_size});
  check_floating(kOp, "embed_tokens", parts_.embed_tokens);
  if (parts_.position_embed.defined()) {
    check_dtype(kOp, "position_embed", parts_.position_embed, dtype());
    check_shape(kOp, "position_embed", parts_.position_embed, {config_.max_position_embeddings, config_.hidden_size});
  }
  if (num_layers() != config_.num_layers)
    throw ArgumentError(kOp, "blocks", "be " + std::to_string(config_.num_layers), std::to_string(num_layers()));
  for (const TransformerBlock& block : parts_.blocks) check_block(block, config_, dtype());
  check_norm("final_norm", parts_.final_norm, config_, dtype());
  check_weight("lm_head", parts_.head, config_.vocab_size, config_.hidden_size);
}

int64_t CausalTransformer::weight_bytes() const {
  int64_t bytes = parts_.head.nbytes();
  const auto add_array = [&](const Array& a) { bytes += a.defined() ? a.nbytes() : 0; };
  for (const TransformerBlock& block : parts_.blocks) {
    for (const Array* a : {&block.attn_norm.gamma, &block.attn_norm.beta, &block.mlp_norm.gamma, &block.mlp_norm.beta,
                           &block.attn.qkv_bias, &block.attn.out.bias})
      add_array(*a);
    for (const Weight& part : block.attn.qkv) bytes += part.nbytes();
    bytes += block.attn.out.weight.nbytes();
    if (const auto* dense = std::get_if<MlpLayer>(&block.mlp)) {
      if (dense->gate.weight.defined()) bytes += dense->gate.weight.nbytes();
      add_array(dense->gate.bias);
      bytes += dense->up.weight.nbytes() + dense->down.weight.nbytes();
      add_array(dense->up.bias);
      add_array(dense->down.bias);
    } else {
      bytes += std::get<MoeLayer>(block.mlp).bytes_per_token();
    }
  }
  add_array(parts_.final_norm.gamma);
  add_array(parts_.final_norm.beta);
  return bytes;
}

Array CausalTransformer::forward(const TokenBatch& batch, const std::vector<KvCache>& caches,
                                 const ForwardBuffers& buffers, int64_t layers) const {
  const int64_t count = layers < 0 ? num_layers() : layers;
  if (count > num_layers() || static_cast<int64_t>(caches.size()) < count)
    throw ArgumentError(kOp, "layers", "be at most the " + std::to_string(num_layers()) + " of the model, with caches",
                        std::to_string(count) + " with " + std::to_string(caches.size()) + " caches");
  embedding(parts_.embed_tokens, batch.ids, &buffers.hidden);
  if (parts_.position_embed.defined()) {
    embedding(parts_.position_embed, batch.positions, &buffers.normed);
    add(buffers.hidden, buffers.normed, &buffers.hidden);
  }
  for (int64_t i = 0; i < count; ++i)
    parts_.blocks[static_cast<size_t>(i)].forward(batch, caches[static_cast<size_t>(i)], buffers);
  return parts_.final_norm(buffers.hidden, &buffers.normed);
}

Array CausalTransformer::logits(const Array& hidden, const Array* out) const {
  return linear(hidden, parts_.head, {}, out);
}

}  // namespace gpukit::llm
