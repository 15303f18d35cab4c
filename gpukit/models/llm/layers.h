// The layers of a transformer over a cache of keys and values. Each writes into arrays of the caller and allocates
// nothing, so that any mix of prompts and single tokens is one sequence of calls, which a graph can hold.
#pragma once

#include <variant>
#include <vector>

#include "gpukit/models/llm/config.h"
#include "gpukit/ops/kv_cache/kv_cache.h"
#include "gpukit/ops/matmul/weight.h"
#include "gpukit/ops/moe/moe.h"

namespace gpukit::llm {

/// Tokens of one forward: int32 [tokens] in the memory of the model's device. A sequence id of -1 is padding.
struct TokenBatch {
  Array ids, positions, sequence_ids;
  int64_t size() const { return ids.shape(0); }
};

/// What the layers write into, [tokens, width] each.
struct ForwardBuffers {
  Array hidden, normed, qkv, attended, mlp;
  Array experts;  // of models of experts
  Array gate;     // of models whose MLP has biases
  static ForwardBuffers allocate(const TransformerConfig& config, DType dtype, int64_t tokens, Device device);
  /// Views of the first tokens.
  ForwardBuffers first(int64_t tokens) const;
};

struct Norm {
  Array gamma, beta;  // beta is undefined for rmsnorm
  double eps = 1e-5;
  Array operator()(const Array& x, const Array* out = nullptr) const;
};

struct Linear {
  Weight weight;
  Array bias;  // or undefined
  Array operator()(const Array& x, const Array* out = nullptr, const Array& residual = {}) const;
};

struct AttentionLayer {
  std::vector<Weight> qkv;  // rows of q, then k, then v: one matrix, or three that cannot be one
  Array qkv_bias, q_norm, k_norm;
  Linear out;
  int64_t num_heads = 0, num_kv_heads = 0, dim = 0, window = 0, chunk = 0;
  double norm_eps = 1e-5;
  Array cos, sin;                          // or undefined
  double attn_scale = 0, floor_scale = 1;  // of irope_scale on q; 0: none
  RopeOptions rope;

  /// out = attention of x + residual. Keys and values of the tokens are appended to the cache first.
  void forward(const Array& x, const TokenBatch& batch, const KvCache& cache, const ForwardBuffers& buffers,
               const Array& residual, const Array& out) const;
};

struct MlpLayer {
  Linear gate, up, down;  // no gate: down(gelu(up(x)))
  void forward(const Array& x, const ForwardBuffers& buffers, const Array& residual, const Array& out) const;
};

struct MoeLayer {
  MoeWeights weights;
  MoeOptions options;
  void forward(const Array& x, const TokenBatch& batch, const ForwardBuffers& buffers, const Array& residual,
               const Array& out) const;
  /// That one token reads.
  int64_t bytes_per_token() const;
};

struct TransformerBlock {
  Norm attn_norm, mlp_norm;
  AttentionLayer attn;
  std::variant<MlpLayer, MoeLayer> mlp;

  /// buffers.hidden, in place.
  void forward(const TokenBatch& batch, const KvCache& cache, const ForwardBuffers& buffers) const;
};

}  // namespace gpukit::llm
