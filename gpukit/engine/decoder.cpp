#include "gpukit/engine/decoder.h"

#include <algorithm>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/sampling/sampling.h"

namespace gpukit::engine {

namespace {
constexpr const char* kOp = "Decoder";
}

Decoder::Decoder(std::shared_ptr<const llm::CausalTransformer> model, std::vector<KvCache> caches, int64_t max_tokens)
    : model_(std::move(model)), caches_(std::move(caches)), forward_(*model_, max_tokens) {
  if (static_cast<int64_t>(caches_.size()) != model_->num_layers())
    throw ArgumentError(kOp, "caches", "be one for each of " + std::to_string(model_->num_layers()) + " layers",
                        std::to_string(caches_.size()));
  logits_ = Array::empty({max_tokens, model_->config().vocab_size}, model_->dtype(), model_->device());
  chosen_ = Array::empty({max_tokens}, DType::int32, model_->device());
  graphs_.resize(static_cast<size_t>(max_tokens) + 1);
}

bool Decoder::uses(const std::vector<KvCache>& caches) const {
  return std::equal(caches.begin(), caches.end(), caches_.begin(), caches_.end(),
                    [](const KvCache& a, const KvCache& b) {
                      return a.k.storage() == b.k.storage() && a.v.storage() == b.v.storage();
                    });
}

/// Throws OutOfRangeError when there is no room.
void Decoder::note(std::span<const int32_t> ids, int64_t start) {
  const auto end = start + static_cast<int64_t>(ids.size());
  if (start < 0 || end > capacity()) throw OutOfRangeError("Decoder: position", end - 1, capacity());
  text_.resize(static_cast<size_t>(start), -1);
  text_.insert(text_.end(), ids.begin(), ids.end());
}

std::span<const int32_t> Decoder::text(int64_t position) const {
  const std::span all(text_.data(), std::min(text_.size(), static_cast<size_t>(std::max<int64_t>(position, 0))));
  if (static_cast<int64_t>(all.size()) < position) return {};
  const auto unknown = std::find(all.rbegin(), all.rend(), -1);
  return all.last(static_cast<size_t>(unknown - all.rbegin()));
}

Array Decoder::logits_of(const Array& hidden) {
  const Array out = logits_.narrow(0, 0, hidden.shape(0));
  return model_->logits(hidden, &out);
}

Array Decoder::hidden(std::span<const int32_t> ids, int64_t start, int64_t layers) {
  note(ids, start);
  return forward_.run(ids, start, caches_, layers);
}

Array Decoder::logits(std::span<const int32_t> ids, int64_t start, int64_t layers) {
  return logits_of(hidden(ids, start, layers));
}

Array Decoder::replay(std::span<const int32_t> ids, int64_t start) {
  note(ids, start);
  forward_.upload(ids, start);
  auto& [graph, level] = graphs_[ids.size()];
  const auto tokens = static_cast<int64_t>(ids.size());
  if (graph == nullptr || level != runtime::determinism() || !graph->fits_session()) {
    auto made = std::make_unique<runtime::Graph>(model_->device());
    runtime::ScopedCapture capture(*made);
    logits_of(forward_.issue(tokens, caches_));
    capture.end();
    graph = std::move(made);
    level = runtime::determinism();
  }
  graph->replay();
  return logits_.narrow(0, 0, tokens);
}

std::vector<int32_t> Decoder::greedy(std::span<const int32_t> ids, int64_t start, int64_t layers) {
  const Array rows = logits(ids, start, layers), out = chosen_.narrow(0, 0, rows.shape(0));
  SamplingParams params;
  params.temperature = 0.0f;
  sample(rows, params, &out);
  std::vector<int32_t> tokens(ids.size());
  to_host(tokens.data(), out, "decode");
  return tokens;
}

Accepted check_draft(Decoder& decoder, int32_t token, int64_t position, std::span<const int32_t> draft) {
  // The last of the draft needs no place: the token after it is not asked for unless there is room.
  const int64_t room = std::min(decoder.max_tokens(), decoder.capacity() - position) - 1;
  draft = draft.first(std::min(draft.size(), static_cast<size_t>(std::max<int64_t>(room, 0))));
  std::vector<int32_t> ids{token};
  ids.insert(ids.end(), draft.begin(), draft.end());
  const std::vector<int32_t> next = decoder.greedy(ids, position);
  Accepted accepted;
  accepted.drafted = static_cast<int64_t>(draft.size());
  accepted.tokens = {next[0]};
  for (size_t i = 0; i < draft.size() && draft[i] == next[i]; ++i) accepted.tokens.push_back(next[i + 1]);
  accepted.converged = accepted.tokens.size() == next.size();
  accepted.computed = next;
  return accepted;
}

std::vector<int32_t> draft_by_layers(Decoder& decoder, int32_t token, int64_t position, int64_t count, int64_t layers) {
  std::vector<int32_t> draft;
  const int64_t most = std::min(count, decoder.capacity() - position - 1);
  while (static_cast<int64_t>(draft.size()) < most) {
    const int32_t last = draft.empty() ? token : draft.back();
    draft.push_back(decoder.greedy({&last, 1}, position + static_cast<int64_t>(draft.size()), layers).front());
  }
  return draft;
}

std::vector<int32_t> draft_by_text(std::span<const int32_t> text, int64_t count, int64_t longest) {
  for (auto length = std::min<int64_t>(longest, static_cast<int64_t>(text.size()) - 1); length > 0; --length) {
    const auto end = text.last(static_cast<size_t>(length));
    const auto before = text.first(text.size() - 1);
    const auto found = std::find_end(before.begin(), before.end(), end.begin(), end.end());
    if (found == before.end()) continue;
    const auto after = static_cast<size_t>(found - before.begin() + length);
    const auto draft = text.subspan(after, std::min(text.size() - after, static_cast<size_t>(count)));
    return {draft.begin(), draft.end()};
  }
  return {};
}

std::vector<int32_t> draft_by_text(const Decoder& decoder, int32_t token, int64_t position, int64_t count,
                                   int64_t longest) {
  const std::span<const int32_t> before = decoder.text(position);
  std::vector<int32_t> text(before.begin(), before.end());
  text.push_back(token);
  return draft_by_text(text, count, longest);
}

Accepted jacobi(Decoder& decoder, int32_t token, int64_t position, std::vector<int32_t> guess, int64_t max_iterations) {
  for (int64_t iteration = 1;; ++iteration) {
    Accepted accepted = check_draft(decoder, token, position, guess);
    accepted.iterations = iteration;
    if (accepted.converged || iteration >= max_iterations) return accepted;
    guess = std::move(accepted.computed);
    guess.pop_back();  // as many as before
  }
}

}  // namespace gpukit::engine
