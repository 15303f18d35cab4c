// Whisper's decoder over caches that stay where they are: any tokens of any sequences in one pass.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpukit/models/asr/whisper_weights.h"
#include "gpukit/ops/kv_cache/kv_cache.h"

namespace gpukit::asr {

/// One token to be read: it stands at `position` of text `sequence`, which is about the sound of `window`.
struct DecoderToken {
  int32_t id = 0, position = 0;
  int32_t sequence = -1, window = -1;  // -1: nothing, its logits are of no use
};

/// Every array of a pass over tokens, so that a replay finds them where the capture did.
struct DecoderPass {
  Array ids, positions, sequences, windows;  // int32 [tokens]
  Array last_keys;                           // int32 [tokens]: the last position of the sound
  Array rows;                                // int32: tokens whose logits are wanted; not defined(): all
  Array x, h, places, wide, qkv, q, mixed;   // of the tokens; q, mixed: [tokens, heads, dim]
  Array chosen, logits;                      // of the rows; logits: [rows, vocab] in the weights' dtype

  /// All but the five of int32 [tokens] and `rows`.
  static DecoderPass allocate(const WhisperWeights& weights, int64_t tokens, int64_t rows);
  /// The same for the first of the tokens, which are the rows.
  DecoderPass first(int64_t tokens) const;
};

/// One layer by itself over x [batch, tokens, d_model] in the weights' dtype: texts from their beginning, each about
/// its own sound, `encoded` [batch, positions, d_model]. Throws ShapeError, DTypeError, DeviceError.
Array decode_layer(const WhisperWeights& weights, size_t layer, const Array& x, const Array& encoded);

/// Holds the keys of `windows` pieces of sound and of `sequences` texts. For one thread at a time. The weights must
/// outlive it.
class WhisperDecoder {
 public:
  WhisperDecoder(const WhisperWeights& weights, int64_t windows, int64_t sequences);
  WhisperDecoder(const WhisperDecoder&) = delete;
  WhisperDecoder& operator=(const WhisperDecoder&) = delete;

  const WhisperWeights& weights() const { return weights_; }
  int64_t num_windows() const { return windows_; }
  int64_t num_sequences() const { return sequences_; }
  int64_t vocab_size() const { return weights_.config.vocab_size; }
  /// Computes the cross keys of a window from its encoder output [max_source_positions, d].
  void listen(int64_t window, const Array& encoded);

  /// Reads tokens, writing their keys to the caches: logits [rows, vocab] of `rows` of them, in the weights' dtype. A
  /// token's logits do not depend on the other sequences. Does not wait.
  Array read(std::span<const DecoderToken> tokens, std::span<const int32_t> rows);
  /// The same over arrays that lie on the device.
  void run(const DecoderPass& pass) const { run(pass, nullptr); }
  /// Throws OutOfRangeError for a token that the model, or a place that the caches do not have.
  void check(const DecoderToken& token) const;
  /// The keys of the first `tokens` tokens of a sequence become those of another one.
  void copy_sequence(int64_t from, int64_t to, int64_t tokens);

  /// How much each token of one text looks at each position of its sound: probabilities [heads, tokens, positions] of
  /// (layer, head) pairs, on the host. Reads the tokens as read does.
  std::vector<float> cross_attention(std::span<const DecoderToken> tokens,
                                     std::span<const std::pair<int64_t, int64_t>> heads);

 private:
  struct Look;  // what cross_attention asks for
  DecoderPass prepare(std::span<const DecoderToken> tokens, std::span<const int32_t> rows) const;
  void run(const DecoderPass& pass, const Look* look) const;
  void note(const Look& look, const DecoderPass& pass, size_t layer) const;

  const WhisperWeights& weights_;
  const int64_t windows_, sequences_;
  std::vector<KvCache> self_, cross_;  // by layer
};

}  // namespace gpukit::asr
