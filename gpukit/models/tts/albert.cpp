#include "gpukit/models/tts/albert.h"

#include "gpukit/ops/attention/attention.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/norm/norm.h"

namespace gpukit::tts {

Albert::Norm Albert::norm(const Loader& loader, const std::string& name, int64_t width) {
  return {loader.tensor(name + ".weight", {width}), loader.tensor(name + ".bias", {width})};
}

void Albert::Norm::operator()(const Array& x, const Array& out) const {
  constexpr double kEps = 1e-12;
  layernorm(x, gamma, beta, kEps, &out);
}

Albert::Albert(const Loader& loader, const KokoroConfig& c)
    : heads_(c.plbert_num_attention_heads), layers_(c.plbert_num_hidden_layers) {
  constexpr int64_t kTokenTypes = 2;
  const int64_t hidden = c.plbert_hidden_size, inner = c.plbert_intermediate_size;
  const std::string embeddings = "bert.embeddings.";
  const int64_t width = loader.size(embeddings + "word_embeddings.weight", 2, 1);
  words_ = loader.tensor(embeddings + "word_embeddings.weight", {c.n_token, width});
  const Array types = loader.tensor(embeddings + "token_type_embeddings.weight", {kTokenTypes, width});
  positions_ = add(loader.tensor(embeddings + "position_embeddings.weight", {c.plbert_max_position_embeddings, width}),
                   types.narrow(0, 0, 1));
  norm_ = norm(loader, embeddings + "LayerNorm", width);
  mapping_ = loader.linear("bert.encoder.embedding_hidden_mapping_in", hidden, width);
  const std::string layer = "bert.encoder.albert_layer_groups.0.albert_layers.0.";
  qkv_ = loader.joined({layer + "attention.query", layer + "attention.key", layer + "attention.value"}, hidden, hidden);
  dense_ = loader.linear(layer + "attention.dense", hidden, hidden);
  attention_norm_ = norm(loader, layer + "attention.LayerNorm", hidden);
  ffn_ = loader.linear(layer + "ffn", inner, hidden);
  ffn_output_ = loader.linear(layer + "ffn_output", hidden, inner);
  full_norm_ = norm(loader, layer + "full_layer_layer_norm", hidden);
}

void Albert::operator()(const Array& ids, const Array& x) const {
  const int64_t steps = ids.shape(0), hidden = x.shape(1), width = words_.shape(1);
  const Dims by_head{1, steps, heads_, hidden / heads_};
  Temporaries room("Albert");
  const Array embedded = room.empty({steps, width}, x.dtype(), x.device());
  embedding(words_, ids, &embedded);
  add(embedded, positions_.narrow(0, 0, steps), &embedded);
  norm_(embedded, embedded);
  mapping_.into(embedded, x);
  for (int64_t layer = 0; layer < layers_; ++layer) {
    Temporaries inner("Albert");
    const Array qkv = qkv_(x, inner).reshape_view({1, steps, 3, hidden});
    const auto part = [&](int64_t i) { return qkv.select(2, i).reshape_view(by_head); };
    const Array seen = inner.empty(by_head, x.dtype(), x.device());
    attention(part(0), part(1), part(2), {}, &seen);
    const Array a = dense_(seen.reshape_view({steps, hidden}), inner, {.residual = x});
    attention_norm_(a, a);
    ffn_output_.into(ffn_(a, inner, {.activation = Activation::gelu}), x, {.residual = a});
    full_norm_(x, x);
  }
}

}  // namespace gpukit::tts
