// Single layers called on the tokens of one sequence, for people who build models of them. Each call allocates what it
// needs; a whole model's forward does not come through here.
#pragma once

#include <utility>
#include <vector>

#include "gpukit/models/llm/causal_transformer.h"

namespace gpukit::llm {

/// Attention of a layer from its matrices, joined where they are dense.
struct AttentionParts {
  Linear q, k, v, out;
  Array q_norm, k_norm;
};
/// Throws ShapeError naming the part that does not go with the config.
AttentionLayer make_attention(const TransformerConfig& config, const AttentionParts& parts, int64_t layer = 0);

struct ExpertMatrices {
  Weight gate, up, down;
};
/// Throws ShapeError, ArgumentError.
MoeLayer make_moe(const TransformerConfig& config, const Weight& router, const std::vector<ExpertMatrices>& experts);

/// float8_e4m3 codes [n, k], or their bytes, with a scale for each block of so many rows and columns.
Weight fp8_weight(const Array& codes, const Array& scale, const std::vector<int64_t>& block);

/// A cache of one sequence that begins with `past`, keys and values [tokens, kv_heads, dim] or undefined.
KvCache extended_cache(const AttentionLayer& layer, const Array& past_k, const Array& past_v, int64_t tokens,
                       DType dtype, Device device);
/// The heads of an array [num_heads, tokens, dim] in which those of one KV head repeat, as a cache of one sequence.
KvCache expanded_cache(const Array& k, const Array& v, int64_t num_kv_heads);

/// Where the tokens of x stand in their cache: start, start + 1, ..., and as many more as `more`, int32 [1], says when
/// defined.
struct CacheStart {
  int64_t start = 0;
  Array more = {};
};
/// Of x [tokens, hidden]. With `out` nothing is allocated, and a graph can hold the call.
Array call(const AttentionLayer& layer, const Array& x, const KvCache& cache, const CacheStart& at,
           const Array* out = nullptr);
Array call(const MlpLayer& layer, const Array& x, const Array* out = nullptr);
Array call(const MoeLayer& layer, const Array& x, const Array* out = nullptr);
Array call(const TransformerBlock& block, const Array& x, const KvCache& cache, int64_t start);

}  // namespace gpukit::llm
