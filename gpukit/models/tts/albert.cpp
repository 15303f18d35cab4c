#include "gpukit/models/tts/albert.h"

#include "gpukit/ops/attention/attention.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/norm/norm.h"

namespace gpukit::tts {

Albert::Norm Albert::norm(const Loader& loader, const std::string& name, int64_t width) {
  return {loader.tensor(name + ".weight", {width}), loader.tensor(name + ".bias", {width})};
}

Array Albert::Norm::operator()(const Array& x) const {
  constexpr double kEps = 1e-12;
  return layernorm(x, gamma, beta, kEps);
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

Array Albert::operator()(const Array& ids) const {
  const int64_t steps = ids.shape(0);
  Array x = mapping_(norm_(add(embedding(words_, ids), positions_.narrow(0, 0, steps))));
  const int64_t hidden = x.shape(1);
  const Dims by_head{1, steps, heads_, hidden / heads_};
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const Array qkv = qkv_(x).reshape_view({1, steps, 3, hidden});
    const auto part = [&](int64_t i) { return qkv.select(2, i).reshape_view(by_head); };
    const Array seen = attention(part(0), part(1), part(2)).reshape_view({steps, hidden});
    const Array a = attention_norm_(dense_(seen, {.residual = x}));
    x = full_norm_(ffn_output_(ffn_(a, {.activation = Activation::gelu}), {.residual = a}));
  }
  return x;
}

}  // namespace gpukit::tts
