// What an engine does in one step.
#include <algorithm>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/engine/engine.h"

namespace gpukit::engine {

namespace {
constexpr const char* kOp = "Engine";
}

/// Of what is kept and what runs; at least the last token is computed anew.
Prefix Engine::find_prefix(const Sequence& sequence) {
  if (!options_.keep_prefixes) return {};
  const std::span<const int32_t> wanted(sequence.tokens.data(), sequence.tokens.size() - 1);
  Prefix best = kept_.find(wanted);
  for (const SequencePtr& other : running_)
    best.improve(std::span(other->tokens).first(static_cast<size_t>(other->done)), cache_, cache_.pages(other->row),
                 wanted);
  return best;
}

/// Whole pages are shared. The last one, which the sequence goes on writing to, is copied, unless that is more work
/// than computing its tokens.
void Engine::use_prefix(Sequence& sequence, const Prefix& prefix) {
  constexpr int64_t kFewTokens = 8;
  const int64_t whole = prefix.length / options_.page_size, rest = prefix.length % options_.page_size;
  if (prefix.length == 0) return;
  cache_.hold(prefix.pages);
  cache_.attach(sequence.row, {prefix.pages.begin(), prefix.pages.begin() + whole});
  sequence.done = whole * options_.page_size;
  if (rest != 0) {
    const std::span last = std::span(prefix.pages).last(1);
    struct Free {
      PagedCache& cache;
      std::span<const int32_t> pages;
      ~Free() { cache.free(pages); }
    } const free{cache_, last};
    bool room = rest >= kFewTokens;
    while (room && !cache_.reserve(sequence.row, prefix.length)) room = kept_.drop_oldest();
    if (room) {
      cache_.copy_page(last.front(), cache_.pages(sequence.row).back(), rest);
      sequence.done = prefix.length;
    }
  }
  num_reused_ += sequence.done;
}

void Engine::admit() {
  while (!waiting_.empty()) {
    const auto row = std::find(used_rows_.begin(), used_rows_.end(), false);
    if (row == used_rows_.end()) return;
    const Prefix prefix = find_prefix(*waiting_.front());
    const std::span shared = std::span(prefix.pages).first(static_cast<size_t>(prefix.length / options_.page_size));
    const int64_t wanted = cache_.pages_for(static_cast<int64_t>(waiting_.front()->tokens.size()) + 1);
    // One that would soon be preempted again waits.
    if (!running_.empty() && cache_.pages_beside(shared) + static_cast<int64_t>(shared.size()) < wanted) return;
    SequencePtr sequence = std::move(waiting_.front());
    waiting_.pop_front();
    try {
      step_.prepare(sequence->given.draw, sequence->given.allowed != nullptr);
    } catch (const std::exception&) {
      fail(*sequence, std::current_exception());
      continue;
    }
    *row = true;
    sequence->row = row - used_rows_.begin();
    running_.push_back(std::move(sequence));
    use_prefix(*running_.back(), prefix);
  }
}

void Engine::preempt(size_t index) {
  SequencePtr sequence = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  release(*sequence, false);
  waiting_.push_front(std::move(sequence));
  ++num_preempted_;
}

/// Pages for the first `tokens` tokens, from kept prefixes and then from younger sequences. False when those are not
/// enough.
bool Engine::make_room(Sequence& sequence, int64_t tokens) {
  while (!cache_.reserve(sequence.row, tokens)) {
    if (kept_.drop_oldest()) continue;
    if (running_.back().get() == &sequence) return false;
    preempt(running_.size() - 1);
  }
  return true;
}

void Engine::advance() {
  const llm::Residence::Turn turn(model_->residence());
  const int64_t begin_ns = real_clock().now_ns();
  admit();
  struct Stepping {
    Engine& engine;
    explicit Stepping(Engine& e) : engine(e) { engine.stepping_ = std::this_thread::get_id(); }
    ~Stepping() {
      engine.stepping_ = std::thread::id();
      std::erase_if(engine.running_, [](const SequencePtr& s) { return s->row < 0; });
    }
  } const stepping{*this};
  Work work = plan();
  ask_callbacks(work);
  if (work.empty()) return;
  const int64_t drawn = draw(work);
  int64_t computed = 0;
  for (const auto& [sequence, tokens] : work) computed += tokens;
  meter_.note(model_->device(), begin_ns, computed, drawn);
}

/// The oldest first. Who finds no pages waits for those before it, or makes those behind it wait.
Engine::Work Engine::plan() {
  Work work;
  int64_t budget = options_.token_budget;
  const auto each = [&](bool single) {
    for (size_t i = 0; i < running_.size(); ++i) {
      Sequence& sequence = *running_[i];
      if ((sequence.left() == 1) != single || budget < 1) continue;
      const int64_t tokens = std::min(sequence.left(), budget);
      if (make_room(sequence, sequence.done + tokens)) {
        work.emplace_back(&sequence, tokens);
        budget -= tokens;
      } else if (running_.size() > 1) {
        preempt(i--);
      } else {
        const OutOfMemoryError error("Engine: a sequence of " + std::to_string(sequence.tokens.size()) +
                                     " tokens needs more than the " + std::to_string(cache_.options().num_pages) +
                                     " pages of the cache");
        fail(sequence, std::make_exception_ptr(error));
        running_.clear();
      }
    }
  };
  each(true);
  each(false);
  std::erase_if(work, [](const auto& item) { return item.first->row < 0; });
  return work;
}

/// For the sequences that draw. Who fails takes no part in the step.
void Engine::ask_callbacks(Work& work) {
  const int64_t vocab = model_->config().vocab_size;
  for (const auto& [sequence, tokens] : work) {
    if (!sequence->given.allowed || tokens < sequence->left()) continue;
    try {
      sequence->allowed = sequence->given.allowed(sequence->tokens);
      if (sequence->allowed.empty()) throw ArgumentError(kOp, "allowed", "give the ids that may come", "none");
      for (const int32_t id : sequence->allowed)
        if (id < 0 || id >= vocab) throw OutOfRangeError("allowed tokens", id, vocab);
    } catch (const StepInterrupt& interrupt) {
      std::rethrow_exception(interrupt.cause);
    } catch (const std::exception&) {
      fail(*sequence, std::current_exception());
    }
  }
  std::erase_if(work, [](const auto& item) { return item.first->row < 0; });
}

/// How many tokens were drawn.
int64_t Engine::draw(const Work& work) {
  const std::vector<Drawn> drawn = run(work);
  int64_t count = 0;
  std::exception_ptr interrupt;
  for (const auto& [sequence, tokens] : work) {
    sequence->done += tokens;
    if (sequence->left() > 0) continue;
    const Drawn& one = drawn[static_cast<size_t>(sequence->row)];
    try {
      if (one.token < 0)
        throw Error("Engine: a row of logits has NaN, or no allowed token, at position " +
                    std::to_string(sequence->tokens.size()));
      sequence->tokens.push_back(one.token);
      ++count;
      Output output = output_of(*sequence, one);
      const bool ended = output.finish != Finish::none;
      ready_.push_back(std::move(output));
      if (ended) end(*sequence, true);
    } catch (const StepInterrupt& signal) {
      interrupt = signal.cause;
      fail(*sequence, std::make_exception_ptr(Error("Engine: a signal came while the text of a token was made")));
    } catch (const std::exception&) {
      fail(*sequence, std::current_exception());
    }
  }
  if (interrupt) std::rethrow_exception(interrupt);
  return count;
}

std::vector<Drawn> Engine::run(const Work& work) {
  std::vector<int32_t> ids, positions, sequences;
  int64_t last = 0;
  bool single = true;
  for (const auto& [sequence, tokens] : work) {
    last = std::max(last, sequence->row);
    single = single && sequence->left() == 1;
  }
  std::vector<StepRow> rows(static_cast<size_t>(last + 1));
  if (single) {
    ids.resize(rows.size());
    positions.resize(rows.size());
  }
  for (const auto& [sequence, tokens] : work) {
    const auto row = static_cast<size_t>(sequence->row);
    if (single) {
      ids[row] = sequence->tokens.back();
      positions[row] = static_cast<int32_t>(sequence->done);
    } else {
      for (int64_t i = sequence->done; i < sequence->done + tokens; ++i) {
        ids.push_back(sequence->tokens[static_cast<size_t>(i)]);
        positions.push_back(static_cast<int32_t>(i));
        sequences.push_back(static_cast<int32_t>(sequence->row));
      }
    }
    if (tokens < sequence->left()) continue;
    StepRow& target = rows[row];
    target.token = single ? sequence->row : static_cast<int64_t>(ids.size()) - 1;
    target.draw = &sequence->given.draw;
    target.history = sequence->tokens;
    target.prompt_length = sequence->prompt_length;
    if (sequence->given.allowed) target.allowed = &sequence->allowed;
  }
  return single ? step_.run_single(ids, positions, rows) : step_.run(ids, positions, sequences, rows);
}

Output Engine::output_of(Sequence& sequence, const Drawn& drawn) const {
  Output output{.request = sequence.request, .drawn = drawn, .text = {}, .error = {}};
  const auto& stops = sequence.given.stop_tokens;
  const bool stops_here = std::find(stops.begin(), stops.end(), drawn.token) != stops.end();
  if (sequence.text && !stops_here) output.text = sequence.text->push(drawn.token);
  output.finish = stops_here ? Finish::stop_token : finish_of(sequence);
  if (sequence.text && output.finish != Finish::none) output.text += sequence.text->flush();
  return output;
}

Finish Engine::finish_of(const Sequence& sequence) const {
  if (sequence.text && sequence.text->stopped()) return Finish::stop_string;
  const auto length = static_cast<int64_t>(sequence.tokens.size());
  if (length - sequence.prompt_length >= sequence.given.max_new_tokens) return Finish::length;
  return length > options_.max_tokens ? Finish::length : Finish::none;
}

}  // namespace gpukit::engine
