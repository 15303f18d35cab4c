// Attention: softmax(q k^T) v over whole arrays, and over the keys and values that a cache holds.
//
// Data is float16, bfloat16 or float32; scores, exponentials and sums are float32 and results are rounded once. Query
// head h reads KV head h * kv_heads / heads; heads must be a multiple of kv_heads. A query that sees no key gives
// zeros. The bits of a query follow from itself and the keys it sees alone: not from other queries, from how a prompt
// was cut, or from where a cache keeps its tokens. The order of the sums is in docs/attention.md. All throw ShapeError,
// DTypeError, DeviceError, ArgumentError; bad values in device memory (lengths, positions, ids, block tables) give
// zeros and raise OutOfRangeError at the next wait.
#pragma once

#include <optional>
#include <string>

#include "gpukit/array/array.h"
#include "gpukit/ops/kv_cache/kv_cache.h"

namespace gpukit {

/// How a score becomes what softmax takes: cap * tanh(scale * q.k / cap) - slope * |position - key|.
struct ScoreOptions {
  std::optional<double> scale = {};  // 1 / sqrt(dim) when empty
  int64_t window = 0;                // a query sees keys less than this far from its position; 0: all
  int64_t chunk = 0;                 // and no key before the multiple of this that its position is past; 0: all
  double softcap = 0;                // 0: none
  Array alibi_slopes = {};           // float32 [heads], or undefined
};

struct AttentionOptions {
  ScoreOptions score = {};
  bool causal = false;  // query i is at position (keys - queries) + i and sees no later key
  Array mask = {};  // bool: false is not seen; float32 or q's dtype: added; broadcast to [batch, heads, queries, keys]
  Array q_lengths = {}, k_lengths = {};  // int32 [batch]: a sequence's queries and keys, at its start; undefined: all
  Array q_scale = {}, k_scale = {}, v_scale = {};  // float32 [kv_heads]: what float8_e4m3 q, k and v are multiplied by
  std::optional<int64_t> first_position = {};      // query i is at first_position + i, wherever keys end
};

/// q is [batch, queries, heads, dim], k and v are [batch, keys, kv_heads, dim], of any strides; dim is 1 to 256. k and
/// v are of q's dtype or float8_e4m3; so may q be then, and the result is bfloat16. `lse`, float32 [batch, heads,
/// queries], receives the logarithm of each sum of exponentials; -inf without a key.
Array attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& options = {},
                const Array* out = nullptr, const Array* lse = nullptr);

/// q is [tokens, heads, dim]: token i belongs to sequence sequence_ids[i] and sees keys 0 .. positions[i] of it, as far
/// as the window reaches. The id -1 gives zeros. Both are int32 [tokens]. Serves prefill, cut prefill, decode and any
/// mix of them; cross attention too, with positions = keys - 1.
Array attention_over_cache(const Array& q, const KvCache& cache, const Array& sequence_ids, const Array& positions,
                           const ScoreOptions& options = {}, const Array* out = nullptr);

/// What attention() does for such arrays: the path and its kernel, for people.
std::string explain_attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& options = {});
/// The same of attention_over_cache().
std::string explain_attention_over_cache(const Array& q, const KvCache& cache, const Array& sequence_ids,
                                         const Array& positions, const ScoreOptions& options = {});

}  // namespace gpukit
