// One sequence decoded by greedy choice, several tokens a step: drafts are guessed cheaply and checked all at once.
//
// What comes out is what one token after another would give, exactly: a token is taken only where the whole model,
// which gives the same bits for any number of tokens a step, chose it after tokens that were taken.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpukit/models/llm/sequence.h"
#include "gpukit/runtime/graph.h"

namespace gpukit::engine {

class Decoder {
 public:
  /// `caches`: one sequence in consecutive tokens, a cache a layer. Up to `max_tokens` tokens a step.
  Decoder(std::shared_ptr<const llm::CausalTransformer> model, std::vector<KvCache> caches, int64_t max_tokens);

  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// These are the caches it was made with.
  bool uses(const std::vector<KvCache>& caches) const;
  int64_t max_tokens() const { return forward_.max_tokens(); }
  /// Tokens that the cache holds.
  int64_t capacity() const { return caches_.front().k.shape(1); }
  int64_t num_layers() const { return model_->num_layers(); }
  /// Hidden states and logits of ids at positions start, start + 1, ..., of the first `layers` layers (-1: all). Views
  /// of buffers that the next step overwrites. Throws OutOfRangeError for a position past the cache or the model.
  Array hidden(std::span<const int32_t> ids, int64_t start, int64_t layers = -1);
  Array logits(std::span<const int32_t> ids, int64_t start, int64_t layers = -1);
  /// The logits by a graph, captured when the number of tokens is first used in a session.
  Array replay(std::span<const int32_t> ids, int64_t start);
  /// The logits after the last of ids alone, a new array [1, vocab].
  Array prefill(std::span<const int32_t> ids, int64_t start);
  /// Up to `count` tokens that the first `layers` layers choose after `token` at `start`, one after the other: one
  /// graph launch and one wait. Fewer where the cache or the model has no more positions.
  std::vector<int32_t> draft(int32_t token, int64_t start, int64_t count, int64_t layers);
  /// The ids computed at the positions before `position`, from the last one on that came in another way.
  std::span<const int32_t> text(int64_t position) const;
  /// The likeliest token after each id: one graph launch and one wait.
  std::vector<int32_t> greedy(std::span<const int32_t> ids, int64_t start);

 private:
  enum class Kind { logits, choices, draft };
  /// What a captured run depends on beside device memory and the session.
  struct Run {
    int64_t tokens = 0, layers = -1;
    Kind kind = Kind::logits;
    env::Determinism level = env::Determinism::run_to_run;
    bool operator==(const Run&) const = default;
  };
  struct Captured {
    Run run;
    std::unique_ptr<runtime::Graph> graph;
  };

  void note(std::span<const int32_t> ids, int64_t start);
  Array logits_of(const Array& hidden);
  void need_logits(int64_t rows);
  void launch(const Run& run, const std::function<void()>& issue);

  std::shared_ptr<const llm::CausalTransformer> model_;
  std::vector<KvCache> caches_;
  llm::SequenceForward forward_;
  Array logits_, chosen_;              // of the most rows asked for so far
  Array draft_ids_, draft_positions_;  // made when first used
  std::vector<int32_t> text_;          // by position; -1 where the cache was filled in another way
  std::vector<Captured> graphs_;
};

/// Tokens that follow, at least one, and what they cost.
struct Accepted {
  std::vector<int32_t> tokens;
  std::vector<int32_t> computed;  // the choice after each token of the step; `tokens` is its certain beginning
  int64_t drafted = 0, iterations = 1;
  bool converged = true;
};

/// `token` at `position` and a draft of what follows, checked in one step.
Accepted check_draft(Decoder& decoder, int32_t token, int64_t position, std::span<const int32_t> draft);
/// What followed the last time that `text` ended in the same tokens, the longest run of up to `longest`; may be empty.
std::vector<int32_t> draft_by_text(std::span<const int32_t> text, int64_t count, int64_t longest = 3);
/// The same for the text of a decoder and the token after it.
std::vector<int32_t> draft_by_text(const Decoder& decoder, int32_t token, int64_t position, int64_t count,
                                   int64_t longest = 3);

/// Jacobi iterations: all of `guess` is computed at once and taken as the next guess, until it stays or
/// `max_iterations` are over. What is certain by then is given.
Accepted jacobi(Decoder& decoder, int32_t token, int64_t position, std::vector<int32_t> guess, int64_t max_iterations);

}  // namespace gpukit::engine
