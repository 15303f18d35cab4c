// A language model: one forward for prompts, cut prompts, single tokens and any mix of them.
#pragma once

#include "gpukit/models/llm/layers.h"
#include "gpukit/models/llm/residence.h"

namespace gpukit::llm {

class CausalTransformer {
 public:
  struct Parts {
    Array embed_tokens, position_embed;  // [vocab, hidden]; [positions, hidden] or undefined
    std::vector<TransformerBlock> blocks;
    Norm final_norm;
    Weight head;  // [vocab, hidden]
  };
  /// Throws ArgumentError, ShapeError, DTypeError when the parts do not go with the config.
  CausalTransformer(const TransformerConfig& config, Parts parts, std::shared_ptr<Residence> residence = nullptr);

  const TransformerConfig& config() const { return config_; }
  const Parts& parts() const { return parts_; }
  DType dtype() const { return parts_.embed_tokens.dtype(); }
  Device device() const { return parts_.embed_tokens.device(); }
  /// Of a model that leaves the device as a whole; else null.
  const std::shared_ptr<Residence>& residence() const { return residence_; }
  int64_t num_layers() const { return static_cast<int64_t>(parts_.blocks.size()); }
  /// Bytes that one token of one sequence reads: all matrices and norms, of experts the chosen ones.
  int64_t weight_bytes() const;

  /// The last hidden states, normed: a view of buffers.normed. `caches` has one cache a layer; keys and values of the
  /// tokens are written there. The buffers have the batch's tokens. Only the first `layers` are run; -1: all.
  Array forward(const TokenBatch& batch, const std::vector<KvCache>& caches, const ForwardBuffers& buffers,
                int64_t layers = -1) const;
  /// hidden [rows, hidden] as [rows, vocab].
  Array logits(const Array& hidden, const Array* out = nullptr) const;

 private:
  TransformerConfig config_;
  Parts parts_;
  std::shared_ptr<Residence> residence_;
};

/// cos and sin for the config's positions, undefined without RoPE. Layers share them.
std::pair<Array, Array> make_rope_tables(const TransformerConfig& config, Device device);
/// Which tokens a layer's attention sees, and what it does to q by its position.
void set_position_rules(const TransformerConfig& config, int64_t layer, AttentionLayer* attn);
/// The dims of a head that are turned.
int64_t rotary_dim(const TransformerConfig& config);

}  // namespace gpukit::llm
