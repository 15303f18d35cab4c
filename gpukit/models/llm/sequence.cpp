#include "gpukit/models/llm/sequence.h"

#include <numeric>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::llm {

std::vector<KvCache> make_sequence_cache(const CausalTransformer& model, int64_t max_tokens) {
  const Dims shape{1, max_tokens, model.config().kv_heads(), model.config().dim()};
  std::vector<KvCache> caches(static_cast<size_t>(model.num_layers()));
  for (KvCache& cache : caches) {
    cache.k = Array::empty(shape, model.dtype(), model.device());
    cache.v = Array::empty(shape, model.dtype(), model.device());
  }
  return caches;
}

SequenceForward::SequenceForward(const CausalTransformer& model, int64_t max_tokens)
    : model_(model),
      buffers_(ForwardBuffers::allocate(model.config(), model.dtype(), max_tokens, model.device())),
      ids_(Array::empty({max_tokens}, DType::int32, model.device())),
      positions_(Array::empty({max_tokens}, DType::int32, model.device())),
      sequence_ids_(zeros({max_tokens}, DType::int32, model.device())) {}

void SequenceForward::upload(std::span<const int32_t> ids, int64_t start) {
  const TransformerConfig& config = model_.config();
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens < 1 || tokens > max_tokens())
    throw ArgumentError("forward", "input_ids", "be 1 to " + std::to_string(max_tokens()) + " ids",
                        std::to_string(tokens));
  if (start < 0 || start + tokens > config.max_position_embeddings)
    throw OutOfRangeError("forward: position", start + tokens - 1, config.max_position_embeddings);
  for (const int32_t id : ids)
    if (id < 0 || id >= config.vocab_size) throw OutOfRangeError("forward: input_ids", id, config.vocab_size);
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
  runtime::copy_from_host(write(ids_), ids.data(), ids.size_bytes());
  runtime::copy_from_host(write(positions_), positions.data(), ids.size_bytes());
}

Array SequenceForward::issue(int64_t tokens, const std::vector<KvCache>& caches, int64_t layers) {
  return issue(ids_.narrow(0, 0, tokens), positions_.narrow(0, 0, tokens), caches, layers);
}

Array SequenceForward::issue(const Array& ids, const Array& positions, const std::vector<KvCache>& caches,
                             int64_t layers) {
  const int64_t tokens = ids.shape(0);
  return model_.forward({ids, positions, sequence_ids_.narrow(0, 0, tokens)}, caches, buffers_.first(tokens), layers);
}

Array SequenceForward::run(std::span<const int32_t> ids, int64_t start, const std::vector<KvCache>& caches,
                           int64_t layers) {
  upload(ids, start);
  return issue(static_cast<int64_t>(ids.size()), caches, layers);
}

Array forward_sequence(const CausalTransformer& model, std::span<const int32_t> ids, const KeysValues& past,
                       KeysValues* present) {
  constexpr const char* kOp = "forward";
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens < 1) throw ArgumentError(kOp, "input_ids", "have an id", "none");
  int64_t start = 0;
  if (!past.empty()) {
    if (static_cast<int64_t>(past.size()) != model.num_layers())
      throw ArgumentError(kOp, "past_key_values",
                          "have a pair for each of " + std::to_string(model.num_layers()) + " layers",
                          std::to_string(past.size()));
    start = past.front().first.ndim() > 0 ? past.front().first.shape(0) : 0;
  }
  std::vector<KvCache> caches = make_sequence_cache(model, start + tokens);
  for (size_t layer = 0; layer < past.size(); ++layer)
    for (const auto& [from, to] :
         {std::pair{&past[layer].first, &caches[layer].k}, {&past[layer].second, &caches[layer].v}}) {
      check_shape(kOp, "past_key_values", *from, {start, to->shape(2), to->shape(3)});
      copy_into(to->select(0, 0).narrow(0, 0, start), *from);
    }
  const Array hidden = SequenceForward(model, tokens).run(ids, start, caches);
  if (present != nullptr)
    for (const KvCache& cache : caches) present->emplace_back(cache.k.select(0, 0), cache.v.select(0, 0));
  return hidden;
}

}  // namespace gpukit::llm
