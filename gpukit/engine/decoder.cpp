#include "gpukit/engine/decoder.h"

#include <algorithm>
#include <numeric>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/sampling/sampling.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::engine {

namespace {
constexpr const char* kOp = "Decoder";
}

Decoder::Decoder(std::shared_ptr<const llm::CausalTransformer> model, std::vector<KvCache> caches, int64_t max_tokens)
    : model_(std::move(model)), caches_(std::move(caches)), forward_(*model_, max_tokens) {
  if (static_cast<int64_t>(caches_.size()) != model_->num_layers())
    throw ArgumentError(kOp, "caches", "be one for each of " + std::to_string(model_->num_layers()) + " layers",
                        std::to_string(caches_.size()));
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

/// Graphs that write to smaller ones go.
void Decoder::need_logits(int64_t rows) {
  if (logits_.defined() && logits_.shape(0) >= rows) return;
  graphs_.clear();
  logits_ = Array::empty({rows, model_->config().vocab_size}, model_->dtype(), model_->device());
  chosen_ = Array::empty({rows}, DType::int32, model_->device());
}

Array Decoder::logits_of(const Array& hidden) {
  const Array out = logits_.narrow(0, 0, hidden.shape(0));
  return model_->logits(hidden, &out);
}

/// A graph runs in the session and on the SMs of its capture: elsewhere it is captured anew.
void Decoder::launch(const Run& run, const std::function<void()>& issue) {
  const auto known = std::find_if(graphs_.begin(), graphs_.end(), [&](const Captured& c) { return c.run == run; });
  if (known != graphs_.end() && known->graph->fits_session()) return known->graph->replay();
  auto graph = std::make_unique<runtime::Graph>(model_->device());
  runtime::ScopedCapture capture(*graph);
  issue();
  capture.end();
  if (const auto& residence = model_->residence()) graph->join(residence->group());
  Captured& kept = known != graphs_.end() ? *known : graphs_.emplace_back(Captured{run, nullptr});
  kept.graph = std::move(graph);
  kept.graph->replay();
}

Array Decoder::hidden(std::span<const int32_t> ids, int64_t start, int64_t layers) {
  note(ids, start);
  return forward_.run(ids, start, caches_, layers);
}

Array Decoder::logits(std::span<const int32_t> ids, int64_t start, int64_t layers) {
  const Array states = hidden(ids, start, layers);
  need_logits(states.shape(0));
  return logits_of(states);
}

Array Decoder::prefill(std::span<const int32_t> ids, int64_t start) {
  const Array states = hidden(ids, start);
  return model_->logits(states.narrow(0, states.shape(0) - 1, 1));
}

Array Decoder::replay(std::span<const int32_t> ids, int64_t start) {
  note(ids, start);
  forward_.upload(ids, start);
  const auto tokens = static_cast<int64_t>(ids.size());
  need_logits(tokens);
  launch({tokens, -1, Kind::logits, runtime::determinism()}, [&] { logits_of(forward_.issue(tokens, caches_)); });
  return logits_.narrow(0, 0, tokens);
}

std::vector<int32_t> Decoder::draft(int32_t token, int64_t start, int64_t count, int64_t layers) {
  const llm::TransformerConfig& config = model_->config();
  if (token < 0 || token >= config.vocab_size) throw OutOfRangeError("draft: token", token, config.vocab_size);
  count = std::min({count, capacity() - start - 1, config.max_position_embeddings - start});
  if (start < 0 || count < 1) return {};
  need_logits(1);
  if (!draft_ids_.defined() || draft_ids_.shape(0) <= count) {
    graphs_.clear();
    draft_ids_ = Array::empty({count + 1}, DType::int32, model_->device());
    draft_positions_ = Array::empty({count}, DType::int32, model_->device());
  }
  std::vector<int32_t> ids(static_cast<size_t>(count)), positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
  runtime::copy_from_host(write(draft_ids_), &token, sizeof(token));
  runtime::copy_from_host(write(draft_positions_), positions.data(), positions.size() * sizeof(int32_t));
  launch({count, layers, Kind::draft, runtime::determinism()}, [&] {
    SamplingParams params;
    params.temperature = 0.0f;
    for (int64_t i = 0; i < count; ++i) {
      const Array hidden =
          forward_.issue(draft_ids_.narrow(0, i, 1), draft_positions_.narrow(0, i, 1), caches_, layers);
      const Array next = draft_ids_.narrow(0, i + 1, 1);
      sample(logits_of(hidden), params, &next);
    }
  });
  to_host(ids.data(), draft_ids_.narrow(0, 1, count), "draft");
  std::vector<int32_t> computed{token};
  computed.insert(computed.end(), ids.begin(), ids.end() - 1);
  note(computed, start);
  return ids;
}

std::vector<int32_t> Decoder::greedy(std::span<const int32_t> ids, int64_t start) {
  note(ids, start);
  forward_.upload(ids, start);
  const auto tokens = static_cast<int64_t>(ids.size());
  need_logits(tokens);
  const Array out = chosen_.narrow(0, 0, tokens);
  launch({tokens, -1, Kind::choices, runtime::determinism()}, [&] {
    SamplingParams params;
    params.temperature = 0.0f;
    sample(logits_of(forward_.issue(tokens, caches_)), params, &out);
  });
  std::vector<int32_t> chosen(ids.size());
  to_host(chosen.data(), out, "decode");
  return chosen;
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
