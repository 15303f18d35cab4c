// Whisper's decoder over caches that stay where they are: any tokens of any sequences in one pass, one graph a step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpukit/models/asr/whisper_weights.h"
#include "gpukit/ops/kv_cache/kv_cache.h"
#include "gpukit/runtime/graph.h"

namespace gpukit::asr {

/// One token to be read: it stands at `position` of text `sequence`, which is about the sound of `window`.
struct DecoderToken {
  int32_t id = 0, position = 0;
  int32_t sequence = -1, window = -1;  // -1: nothing, its logits are of no use
};

/// Holds the keys of `windows` pieces of sound and of `sequences` texts. For one thread at a time. The weights must
/// outlive it.
class WhisperDecoder {
 public:
  WhisperDecoder(const WhisperWeights& weights, int64_t windows, int64_t sequences);
  ~WhisperDecoder();
  WhisperDecoder(const WhisperDecoder&) = delete;
  WhisperDecoder& operator=(const WhisperDecoder&) = delete;

  int64_t num_windows() const { return windows_; }
  int64_t num_sequences() const { return sequences_; }
  int64_t vocab_size() const { return weights_.config.vocab_size; }
  /// Whether a step should have a row for every sequence, so that one graph serves: on a GPU, where idle rows cost
  /// nothing.
  bool wants_full_steps() const { return weights_.device.kind == DeviceKind::cuda; }
  /// Computes the cross keys of a window from its encoder output [max_source_positions, d].
  void listen(int64_t window, const Array& encoded);

  /// Reads tokens, writing their keys to the caches, and gives the logits of `rows` of them: float32 [rows, vocab] that
  /// stay until the next call. Waits. A token's logits do not depend on the other sequences. As many tokens as there
  /// are sequences with rows 0, 1, ... are a step, which is captured once and replayed.
  std::span<const float> forward(std::span<const DecoderToken> tokens, std::span<const int32_t> rows);
  /// The keys of the first `tokens` tokens of a sequence become those of another one.
  void copy_sequence(int64_t from, int64_t to, int64_t tokens);

  /// How much each token of one text looks at each position of its sound: probabilities [heads, tokens, positions] of
  /// (layer, head) pairs, on the host. Reads the tokens as forward does.
  std::vector<float> cross_attention(std::span<const DecoderToken> tokens,
                                     std::span<const std::pair<int64_t, int64_t>> heads);

 private:
  struct Pass;  // the buffers of a pass over so many tokens
  struct Look;  // what cross_attention asks for
  void fill(Pass& pass, std::span<const DecoderToken> tokens, std::span<const int32_t> rows) const;
  void run(Pass& pass, const Look* look = nullptr) const;
  void note(const Look& look, const Pass& pass, size_t layer) const;

  const WhisperWeights& weights_;
  const int64_t windows_, sequences_;
  std::vector<KvCache> self_, cross_;  // by layer
  std::unique_ptr<Pass> step_;
  std::unique_ptr<runtime::Graph> graph_;
  std::vector<float> logits_;
};

}  // namespace gpukit::asr
