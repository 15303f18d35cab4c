// Many requests on one model: they join and leave between steps, and each gets the tokens it would get alone.
//
// A step computes one token of every running sequence and, within a budget of tokens, pieces of prompts. When pages are
// short the youngest sequence gives its own back and is computed again later: which costs time, and changes no token,
// because the bits of a token follow from its sequence alone and its draw from (seed, position).
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "gpukit/engine/meter.h"
#include "gpukit/engine/prefix_store.h"
#include "gpukit/engine/step.h"
#include "gpukit/engine/stop_text.h"

namespace gpukit::engine {

enum class Finish { none, length, stop_token, stop_string, cancelled, error };
/// `length`, `stop_token`, ...
const char* name(Finish finish);

struct Request {
  std::vector<int32_t> prompt;
  int64_t max_new_tokens = 20;
  Draw draw;
  std::vector<int32_t> stop_tokens;  // the one that ends a request is part of its tokens
  /// Called with all tokens of the sequence before each draw: the ids that may come. Runs on the thread of step().
  /// What it throws ends the request; a StepInterrupt ends the step and no request.
  std::function<std::vector<int32_t>(const std::vector<int32_t>& tokens)> allowed;
  std::optional<text::Tokenizer> tokenizer;  // makes the text of outputs
  std::optional<TextSource> text;            // or this does
  std::vector<std::string> stop;             // strings that end the request; they need one of the two
};

/// Thrown by a callback for what is not its request's, such as a signal: the step throws `cause`.
struct StepInterrupt {
  std::exception_ptr cause;
};

/// One new token, or what ended a request.
struct Output {
  int64_t request = 0;
  Drawn drawn;
  Finish finish = Finish::none;
  std::string text;          // that can be shown now, up to a stop string; with a tokenizer
  std::exception_ptr error;  // with Finish::error: nothing was drawn
};

/// Any thread may call; steps wait for each other, submit() and cancel() do not wait for steps.
class Engine {
 public:
  struct Options {
    int64_t max_sequences = 1;  // that run at a time
    int64_t max_tokens = 0;     // of one sequence; 0: the model's positions
    int64_t num_pages = 0;      // 0: for max_sequences sequences of max_tokens
    int64_t page_size = 64;
    int64_t token_budget = 512;        // of one step
    std::optional<DType> cache_dtype;  // of keys and values; empty: the model's
    bool graphs = true, verify_graphs = false, logprobs = false, keep_prefixes = true;
    int64_t top_logprobs = 0;
  };
  /// Throws ArgumentError, OutOfMemoryError.
  Engine(std::shared_ptr<const llm::CausalTransformer> model, const Options& options);

  /// The number of the request. Throws ArgumentError, OutOfRangeError (a token id).
  int64_t submit(Request request);
  /// False when it is not there any more. Its pages come back at once, or after the step that runs now.
  bool cancel(int64_t request);
  /// What each sequence drew in one step, after what next() left over. A sequence whose prompt is not done draws
  /// nothing. What fails for one request alone ends it with an error: its callback, logits of NaN, a text that needs
  /// more pages than there are. What the forward throws is thrown, and the next step tries again.
  std::vector<Output> step();
  /// The next token of one request; steps as often as it takes. Throws the error that ended the request, once;
  /// ArgumentError for a request that has ended.
  Output next(int64_t request);
  bool idle();
  /// Gives the pages of ended texts back.
  void drop_prefixes();

  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t num_preempted() const { return num_preempted_; }
  /// Prompt tokens that did not have to be computed.
  int64_t num_reused_tokens() const { return num_reused_; }
  const PagedCache& cache() const { return cache_; }
  Step& step_runner() { return step_; }
  const Options& options() const { return options_; }
  const llm::CausalTransformer& model() const { return *model_; }

 private:
  struct Sequence {
    int64_t request = 0, row = -1;
    Request given;
    std::vector<int32_t> tokens, allowed;  // prompt and what was drawn; ids that may come next
    std::optional<StopText> text;
    int64_t prompt_length = 0;
    int64_t done = 0;  // tokens whose keys and values are in the cache
    int64_t left() const { return static_cast<int64_t>(tokens.size()) - done; }
  };
  using SequencePtr = std::unique_ptr<Sequence>;
  using Work = std::vector<std::pair<Sequence*, int64_t>>;  // and how many of its tokens a step computes
  /// One call that holds the mutex: what came and went before it is taken up, and at its end what did meanwhile.
  class Turn;

  /// Throws Error in a callback of a step.
  void refuse_callback() const;
  void take_up();
  void leave() noexcept;
  void remove(int64_t request);
  void advance();
  Work plan();
  void ask_callbacks(Work& work);
  int64_t draw(const Work& work);
  void admit();
  bool make_room(Sequence& sequence, int64_t tokens);
  void preempt(size_t index);
  void release(Sequence& sequence, bool keep);
  void end(Sequence& sequence, bool keep);
  void fail(Sequence& sequence, std::exception_ptr error);
  Prefix find_prefix(const Sequence& sequence);
  void use_prefix(Sequence& sequence, const Prefix& prefix);
  std::vector<Drawn> run(const Work& work);
  Output output_of(Sequence& sequence, const Drawn& drawn) const;
  Finish finish_of(const Sequence& sequence) const;

  std::shared_ptr<const llm::CausalTransformer> model_;
  Options options_;
  std::optional<llm::Residence::Turn> making_;  // while caches and buffers are made
  PagedCache cache_;
  Step step_;
  Meter meter_;
  std::deque<SequencePtr> waiting_;
  std::vector<SequencePtr> running_;  // the oldest first
  PrefixStore kept_;
  std::deque<Output> ready_;  // what next() found for others
  std::vector<bool> used_rows_;
  std::mutex mutex_;
  std::atomic<std::thread::id> stepping_;  // the thread that computes
  int64_t num_preempted_ = 0, num_reused_ = 0;

  std::mutex door_;  // of what follows; nobody holds it for long
  std::vector<SequencePtr> came_;
  std::vector<int64_t> went_;
  std::unordered_set<int64_t> live_;  // requests that have not ended
  int64_t next_request_ = 0;
};

/// For a few requests of up to `tokens` tokens: pages for two of them, and for longer ones where that is cheap.
Engine::Options options_for(const llm::CausalTransformer& model, int64_t tokens);

}  // namespace gpukit::engine
