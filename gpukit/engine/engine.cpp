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
    case Finish::error: return "error";
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
      making_(std::in_place, model_->residence()),
      cache_(model_->config(), cache_options(*model_, options_), model_->device()),
      step_(model_, cache_,
            {options_.token_budget, options_.graphs, options_.verify_graphs, options_.top_logprobs, options_.logprobs}),
      kept_(cache_),
      used_rows_(static_cast<size_t>(options_.max_sequences), false) {
  if (const auto& residence = model_->residence()) cache_.join(residence->group());
  making_.reset();
}

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
  refuse_callback();
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = request.prompt;
  sequence->prompt_length = length;
  if (request.tokenizer) request.text = text_source(*request.tokenizer);
  if (request.text)
    sequence->text.emplace(std::move(*request.text), request.stop);
  else if (!request.stop.empty())
    throw ArgumentError(kOp, "stop", "come with a tokenizer", "none");
  sequence->given = std::move(request);
  int64_t number = 0;
  {
    const std::lock_guard lock(door_);
    number = sequence->request = next_request_++;
    live_.insert(number);
    came_.push_back(std::move(sequence));
  }
  if (mutex_.try_lock()) leave();
  return number;
}

class Engine::Turn {
 public:
  explicit Turn(Engine& engine) : engine_(engine) {
    engine_.refuse_callback();
    engine_.mutex_.lock();
    engine_.take_up();
  }
  ~Turn() { engine_.leave(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Engine& engine_;
};

void Engine::refuse_callback() const {
  if (stepping_.load() == std::this_thread::get_id())
    throw Error("Engine: a callback of a step cannot use the engine of that step");
}

void Engine::take_up() {
  std::vector<SequencePtr> came;
  std::vector<int64_t> went;
  {
    const std::lock_guard lock(door_);
    came.swap(came_);
    went.swap(went_);
  }
  waiting_.insert(waiting_.end(), std::make_move_iterator(came.begin()), std::make_move_iterator(came.end()));
  for (const int64_t request : went) remove(request);
}

/// Who cancels while the mutex is held leaves the rest to the holder, who looks once more after it let go.
void Engine::leave() noexcept {
  for (;;) {
    try {
      take_up();
    } catch (...) {  // no host memory: their pages come back with the engine
    }
    mutex_.unlock();
    {
      const std::lock_guard lock(door_);
      if (went_.empty()) return;
    }
    if (!mutex_.try_lock()) return;
  }
}

bool Engine::cancel(int64_t request) {
  refuse_callback();
  bool found = false;
  {
    const std::lock_guard lock(door_);
    found = live_.erase(request) > 0;
    went_.push_back(request);
  }
  if (mutex_.try_lock()) leave();
  return found;
}

void Engine::remove(int64_t request) {
  std::erase_if(ready_, [&](const Output& output) { return output.request == request; });
  const auto is_it = [&](const SequencePtr& s) { return s->request == request; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    release(**it, true);
    running_.erase(it);
  } else {
    std::erase_if(waiting_, is_it);
  }
}

void Engine::release(Sequence& sequence, bool keep) {
  if (sequence.row < 0) return;
  PagedCache::Pages pages = cache_.detach(sequence.row);
  used_rows_[static_cast<size_t>(sequence.row)] = false;
  sequence.row = -1;
  if (keep && options_.keep_prefixes && sequence.done > 0) {
    sequence.tokens.resize(static_cast<size_t>(sequence.done));
    kept_.keep(std::move(sequence.tokens), std::move(pages));
  } else {
    cache_.free(pages);
  }
  sequence.done = 0;
}

/// Its row is free; who goes through running_ takes it out.
void Engine::end(Sequence& sequence, bool keep) {
  release(sequence, keep);
  const std::lock_guard lock(door_);
  live_.erase(sequence.request);
}

/// What is in its pages may be as bad as what came of them: nobody else gets it.
void Engine::fail(Sequence& sequence, std::exception_ptr error) {
  ready_.push_back(
      {.request = sequence.request, .drawn = {}, .finish = Finish::error, .text = {}, .error = std::move(error)});
  end(sequence, false);
}

bool Engine::idle() {
  const Turn turn(*this);
  return waiting_.empty() && running_.empty() && ready_.empty();
}

void Engine::drop_prefixes() {
  const Turn turn(*this);
  while (kept_.drop_oldest()) {
  }
}

std::vector<Output> Engine::step() {
  const Turn turn(*this);
  if (ready_.empty()) advance();
  std::vector<Output> outputs(std::make_move_iterator(ready_.begin()), std::make_move_iterator(ready_.end()));
  ready_.clear();
  return outputs;
}

Output Engine::next(int64_t request) {
  const auto here = [&](const SequencePtr& s) { return s->request == request; };
  for (;;) {
    const Turn turn(*this);
    const auto found =
        std::find_if(ready_.begin(), ready_.end(), [&](const Output& o) { return o.request == request; });
    if (found != ready_.end()) {
      Output output = std::move(*found);
      ready_.erase(found);
      if (output.error) std::rethrow_exception(output.error);
      return output;
    }
    if (std::none_of(running_.begin(), running_.end(), here) && std::none_of(waiting_.begin(), waiting_.end(), here))
      throw ArgumentError(kOp, "request", "be one that has not ended", std::to_string(request));
    advance();
  }
}

}  // namespace gpukit::engine
