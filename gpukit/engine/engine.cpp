#include "gpukit/engine/engine.h"

#include <algorithm>
#include <bit>

#include "gpukit/base/error.h"

namespace gpukit::engine {

namespace {

constexpr const char* kOp = "Engine";

Engine::Options completed(const llm::CausalTransformer& model, Engine::Options o) {
  const int64_t positions = model.config().max_position_embeddings;
  if (o.max_tokens == 0) o.max_tokens = positions;
  if (o.max_tokens < 1 || o.max_tokens > positions)
    throw ArgumentError(kOp, "max_tokens", "be 1 to the model's " + std::to_string(positions) + " positions",
                        std::to_string(o.max_tokens));
  for (const auto& [argument, value] :
       {std::pair{"max_sequences", o.max_sequences}, {"page_size", o.page_size}, {"token_budget", o.token_budget}})
    if (value < 1) throw ArgumentError(kOp, argument, "be positive", std::to_string(value));
  if (o.num_pages == 0) o.num_pages = o.max_sequences * ((o.max_tokens + o.page_size - 1) / o.page_size);
  o.token_budget = std::max(o.token_budget, o.max_sequences);
  return o;
}

PagedCache::Options cache_options(const llm::CausalTransformer& model, const Engine::Options& o) {
  return {o.num_pages, o.page_size, o.max_sequences, o.max_tokens, o.cache_dtype.value_or(model.dtype())};
}

}  // namespace

const char* name(Finish finish) {
  switch (finish) {
    case Finish::none: return "none";
    case Finish::length: return "length";
    case Finish::stop_token: return "stop_token";
    case Finish::stop_string: return "stop_string";
    case Finish::cancelled: return "cancelled";
  }
  return "none";
}

Engine::Options options_for(const llm::CausalTransformer& model, int64_t tokens) {
  constexpr int64_t kCheapTokens = 4096;
  const int64_t positions = model.config().max_position_embeddings;
  const auto wanted =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(tokens, 1, positions))));
  Engine::Options options;
  options.max_sequences = 8;
  options.max_tokens = std::min(positions, std::max(wanted, kCheapTokens));
  options.page_size = std::min<int64_t>(options.page_size, options.max_tokens);
  options.num_pages = 2 * ((options.max_tokens + options.page_size - 1) / options.page_size);
  return options;
}

Engine::Engine(std::shared_ptr<const llm::CausalTransformer> model, const Options& options)
    : model_(std::move(model)),
      options_(completed(*model_, options)),
      cache_(model_->config(), cache_options(*model_, options_), model_->device()),
      step_(model_, cache_,
            {options_.token_budget, options_.graphs, options_.verify_graphs, options_.top_logprobs, options_.logprobs}),
      used_rows_(static_cast<size_t>(options_.max_sequences), false) {}

int64_t Engine::submit(Request request) {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length < 1) throw ArgumentError(kOp, "prompt", "have a token", "none");
  if (request.max_new_tokens < 1)
    throw ArgumentError(kOp, "max_new_tokens", "be positive", std::to_string(request.max_new_tokens));
  if (length >= options_.max_tokens + 1 || length > options_.max_tokens)
    throw ArgumentError(kOp, "prompt", "have at most " + std::to_string(options_.max_tokens) + " tokens",
                        std::to_string(length));
  for (const int32_t id : request.prompt)
    if (id < 0 || id >= model_->config().vocab_size) throw OutOfRangeError("prompt", id, model_->config().vocab_size);
  if (static_cast<int64_t>(request.draw.bias.size()) > Draw::kMaxBias)
    throw ArgumentError(kOp, "logit_bias", "name at most " + std::to_string(Draw::kMaxBias) + " tokens",
                        std::to_string(request.draw.bias.size()));
  for (const auto& [id, value] : request.draw.bias)
    if (id < 0 || id >= model_->config().vocab_size)
      throw OutOfRangeError("logit_bias", id, model_->config().vocab_size);
  const auto lock = enter();
  auto sequence = std::make_unique<Sequence>();
  sequence->request = next_request_++;
  sequence->tokens = request.prompt;
  sequence->prompt_length = length;
  if (request.tokenizer)
    sequence->text.emplace(*request.tokenizer, request.stop);
  else if (!request.stop.empty())
    throw ArgumentError(kOp, "stop", "come with a tokenizer", "none");
  sequence->given = std::move(request);
  waiting_.push_back(std::move(sequence));
  return waiting_.back()->request;
}

std::unique_lock<std::mutex> Engine::enter() {
  if (stepping_.load() == std::this_thread::get_id())
    throw Error("Engine: a callback of a step cannot use the engine of that step");
  return std::unique_lock(mutex_);
}

bool Engine::cancel(int64_t request) {
  const auto lock = enter();
  std::erase_if(ready_, [&](const Output& output) { return output.request == request; });
  return remove(request);
}

bool Engine::remove(int64_t request) {
  const auto is_it = [&](const SequencePtr& s) { return s->request == request; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    release(**it, true);
    running_.erase(it);
    return true;
  }
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), is_it);
  if (it == waiting_.end()) return false;
  waiting_.erase(it);
  return true;
}

void Engine::release(Sequence& sequence, bool keep) {
  PagedCache::Pages pages = cache_.detach(sequence.row);
  used_rows_[static_cast<size_t>(sequence.row)] = false;
  sequence.row = -1;
  if (keep && options_.keep_prefixes && !pages.empty()) {
    sequence.tokens.resize(static_cast<size_t>(sequence.done));
    kept_.push_back({std::move(sequence.tokens), std::move(pages)});
  } else {
    cache_.free(pages);
  }
  sequence.done = 0;
}

bool Engine::drop_oldest_kept() {
  if (kept_.empty()) return false;
  cache_.free(kept_.front().pages);
  kept_.pop_front();
  return true;
}

/// Takes over the pages of the ended sequence that begins most alike; at least the last token is computed anew.
void Engine::reuse_prefix(Sequence& sequence) {
  size_t best = 0;
  int64_t length = 0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const auto& tokens = kept_[i].tokens;
    const auto same = std::mismatch(tokens.begin(), tokens.end(), sequence.tokens.begin(), sequence.tokens.end() - 1);
    if (same.first - tokens.begin() > length) {
      best = i;
      length = same.first - tokens.begin();
    }
  }
  if (length == 0) return;
  PagedCache::Pages pages = std::move(kept_[best].pages);
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(best));
  const auto whole = static_cast<size_t>(cache_.pages_for(length));
  cache_.free(std::span(pages).subspan(whole));
  pages.resize(whole);
  cache_.attach(sequence.row, std::move(pages));
  sequence.done = length;
  num_reused_ += length;
}

void Engine::admit() {
  while (!waiting_.empty()) {
    // One that would soon be preempted again waits.
    int64_t pages = cache_.free_pages();
    for (const Kept& kept : kept_) pages += static_cast<int64_t>(kept.pages.size());
    if (!running_.empty() && pages < cache_.pages_for(static_cast<int64_t>(waiting_.front()->tokens.size()) + 1))
      return;
    const auto row = std::find(used_rows_.begin(), used_rows_.end(), false);
    if (row == used_rows_.end()) return;
    SequencePtr sequence = std::move(waiting_.front());
    waiting_.pop_front();
    *row = true;
    sequence->row = row - used_rows_.begin();
    reuse_prefix(*sequence);
    running_.push_back(std::move(sequence));
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
    if (drop_oldest_kept()) continue;
    if (running_.back().get() == &sequence) return false;
    preempt(running_.size() - 1);
  }
  return true;
}

bool Engine::idle() {
  const auto lock = enter();
  return waiting_.empty() && running_.empty() && ready_.empty();
}

std::vector<Output> Engine::step() {
  const auto lock = enter();
  if (ready_.empty()) advance();
  std::vector<Output> outputs(std::make_move_iterator(ready_.begin()), std::make_move_iterator(ready_.end()));
  ready_.clear();
  return outputs;
}

Output Engine::next(int64_t request) {
  const auto lock = enter();
  const auto here = [&](const SequencePtr& s) { return s->request == request; };
  for (;;) {
    const auto found =
        std::find_if(ready_.begin(), ready_.end(), [&](const Output& o) { return o.request == request; });
    if (found != ready_.end()) {
      Output output = std::move(*found);
      ready_.erase(found);
      return output;
    }
    if (std::none_of(running_.begin(), running_.end(), here) && std::none_of(waiting_.begin(), waiting_.end(), here))
      throw ArgumentError(kOp, "request", "be one that has not ended", std::to_string(request));
    advance();
  }
}

void Engine::advance() {
  admit();
  std::vector<std::pair<Sequence*, int64_t>> work;  // tokens of each to compute now
  int64_t budget = options_.token_budget;
  const auto plan = [&](Sequence& sequence, int64_t tokens) {
    if (!make_room(sequence, sequence.done + tokens)) return false;
    work.emplace_back(&sequence, tokens);
    budget -= tokens;
    return true;
  };
  // The oldest first. Who finds no pages waits for those before it, or makes those behind it wait.
  const auto each = [&](bool single) {
    for (size_t i = 0; i < running_.size(); ++i) {
      Sequence& sequence = *running_[i];
      if ((sequence.left() == 1) != single || budget < 1) continue;
      if (plan(sequence, std::min(sequence.left(), budget))) continue;
      if (running_.size() == 1) {
        const size_t length = sequence.tokens.size();
        remove(sequence.request);
        throw OutOfMemoryError("Engine: a sequence of " + std::to_string(length) + " tokens needs more than the " +
                               std::to_string(cache_.options().num_pages) + " pages of the cache");
      }
      preempt(i--);
    }
  };
  each(true);
  each(false);
  std::erase_if(work, [](const auto& item) { return item.first->row < 0; });
  if (work.empty()) return;
  struct Stepping {
    std::atomic<std::thread::id>& thread;
    ~Stepping() { thread = std::thread::id(); }
  } const stepping{stepping_};
  stepping_ = std::this_thread::get_id();
  const std::vector<Drawn> drawn = run(work);
  for (const auto& [sequence, tokens] : work) {
    sequence->done += tokens;
    if (sequence->left() > 0) continue;
    const Drawn& one = drawn[static_cast<size_t>(sequence->row)];
    if (one.token < 0)
      throw Error("Engine: a row of logits has NaN, or no allowed token, at position " +
                  std::to_string(sequence->tokens.size()));
    sequence->tokens.push_back(one.token);
    ready_.push_back(output_of(*sequence, one));
    if (ready_.back().finish != Finish::none) release(*sequence, true);
  }
  std::erase_if(running_, [](const SequencePtr& s) { return s->row < 0; });
}

std::vector<Drawn> Engine::run(const std::vector<std::pair<Sequence*, int64_t>>& work) {
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
    if (sequence->given.allowed) {
      sequence->allowed = sequence->given.allowed(sequence->tokens);
      target.allowed = &sequence->allowed;
    }
  }
  return single ? step_.run_single(ids, positions, rows) : step_.run(ids, positions, sequences, rows);
}

Output Engine::output_of(Sequence& sequence, const Drawn& drawn) const {
  Output output{.request = sequence.request, .drawn = drawn, .text = {}};
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
