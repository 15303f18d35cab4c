// One sequence at a time, in a cache of consecutive tokens.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "gpukit/models/llm/causal_transformer.h"

namespace gpukit::llm {

/// Keys and values of one sequence, a cache a layer: [1, max_tokens, kv_heads, dim] of the model's dtype.
std::vector<KvCache> make_sequence_cache(const CausalTransformer& model, int64_t max_tokens);

/// Buffers for up to `max_tokens` tokens of one sequence.
class SequenceForward {
 public:
  SequenceForward(const CausalTransformer& model, int64_t max_tokens);
  int64_t max_tokens() const { return buffers_.hidden.shape(0); }
  /// Hidden states [tokens, hidden] of ids at positions start, start + 1, ...; -1 for `layers`: all. A view of a buffer
  /// that the next run overwrites.
  Array run(std::span<const int32_t> ids, int64_t start, const std::vector<KvCache>& caches, int64_t layers = -1);
  /// run() in two steps, of which a graph may hold the second: its inputs lie in device memory.
  void upload(std::span<const int32_t> ids, int64_t start);
  Array issue(int64_t tokens, const std::vector<KvCache>& caches, int64_t layers = -1);
  /// The same of int32 arrays of the caller.
  Array issue(const Array& ids, const Array& positions, const std::vector<KvCache>& caches, int64_t layers = -1);

 private:
  const CausalTransformer& model_;
  ForwardBuffers buffers_;
  Array ids_, positions_, sequence_ids_;
};

/// Keys and values [tokens, kv_heads, dim] of a sequence so far, a pair a layer.
using KeysValues = std::vector<std::pair<Array, Array>>;

/// Hidden states of `ids` after the tokens of `past`, which may be empty, and the keys and values of both when
/// `present` is given. Throws OutOfRangeError for an id or a position that the model does not have.
Array forward_sequence(const CausalTransformer& model, std::span<const int32_t> ids, const KeysValues& past,
                       KeysValues* present);

}  // namespace gpukit::llm
