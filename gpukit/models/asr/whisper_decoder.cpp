#include "gpukit/models/asr/whisper_decoder.h"

#include <algorithm>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/models/asr/whisper_encoder.h"
#include "gpukit/ops/attention/attention.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/norm/norm.h"
#include "gpukit/ops/rope/rope.h"
#include "gpukit/ops/softmax/softmax.h"

namespace gpukit::asr {
namespace {

constexpr double kNormEps = 1e-5;

Array normalize(const Array& x, const NormWeights& norm, const Array& out) {
  return layernorm(x, norm.gamma, norm.beta, kNormEps, &out);
}

void project(const Array& x, const LinearWeights& weights, const Array& out, Activation activation = Activation::none) {
  linear(x, weights.weight, {.bias = weights.bias, .activation = activation}, &out);
}

void project_onto(const Array& residual, const Array& x, const LinearWeights& weights) {
  linear(x, weights.weight, {.bias = weights.bias, .residual = residual}, &residual);
}

/// Self-attention, and the query of what listens to the sound.
void decode_self(const DecoderLayer& layer, const DecoderPass& pass, const KvCache& self) {
  project(normalize(pass.x, layer.attention_norm, pass.h), layer.qkv, pass.qkv);
  qkv_rope_append(pass.qkv, pass.q, self, pass.sequences, pass.positions, {});
  attention_over_cache(pass.q, self, pass.sequences, pass.positions, {}, &pass.mixed);
  project_onto(pass.x, pass.mixed.reshape_view(pass.x.shape()), layer.out);
  project(normalize(pass.x, layer.cross_norm, pass.h), layer.cross_q, pass.q.reshape_view(pass.x.shape()));
}

/// The rest of a layer.
void decode_cross(const DecoderLayer& layer, const DecoderPass& pass, const KvCache& cross) {
  attention_over_cache(pass.q, cross, pass.windows, pass.last_keys, {}, &pass.mixed);
  project_onto(pass.x, pass.mixed.reshape_view(pass.x.shape()), layer.cross_out);
  project(normalize(pass.x, layer.mlp_norm, pass.h), layer.fc1, pass.wide, Activation::gelu_erf);
  project_onto(pass.x, pass.wide, layer.fc2);
}

}  // namespace

DecoderPass DecoderPass::allocate(const WhisperWeights& w, int64_t tokens, int64_t rows) {
  const WhisperConfig& c = w.config;
  const auto make = [&](const Dims& shape) { return Array::empty(shape, w.dtype, w.device); };
  DecoderPass pass;
  pass.x = make({tokens, c.d_model});
  pass.h = make(pass.x.shape());
  pass.places = make(pass.x.shape());
  pass.wide = make({tokens, c.decoder_ffn_dim});
  pass.qkv = make({tokens, 3 * c.d_model});
  pass.q = make({tokens, c.decoder_attention_heads, c.d_model / c.decoder_attention_heads});
  pass.mixed = make(pass.q.shape());
  pass.chosen = make({rows, c.d_model});
  pass.logits = make({rows, c.vocab_size});
  return pass;
}

DecoderPass DecoderPass::first(int64_t tokens) const {
  DecoderPass part = *this;
  for (Array* array :
       {&part.x, &part.h, &part.places, &part.wide, &part.qkv, &part.q, &part.mixed, &part.chosen, &part.logits})
    *array = array->narrow(0, 0, tokens);
  return part;
}

Array decode_layer(const WhisperWeights& w, size_t layer, const Array& given, const Array& encoded) {
  constexpr const char* kOp = "WhisperDecoderLayer";
  check_layer_input(kOp, w, given);
  check_layer_input(kOp, w, encoded);
  const int64_t batch = given.shape(0), length = given.shape(1), d = given.shape(2), positions = encoded.shape(1);
  if (encoded.shape(0) != batch || positions < 1)
    throw ShapeError(kOp, "encoder_hidden_states", "be of " + std::to_string(batch) + " sounds", encoded.shape().str());
  const Array x = copy(given);
  const int64_t heads = w.config.decoder_attention_heads, tokens = batch * length;
  const auto cache_of = [&](int64_t count) {
    KvCache cache;
    for (Array* part : {&cache.k, &cache.v}) *part = Array::empty({batch, count, heads, d / heads}, w.dtype, w.device);
    return cache;
  };
  const DecoderLayer& weights = w.decoder[layer];
  const KvCache self = cache_of(length), cross = cache_of(positions);
  const Array kv = linear(encoded, weights.cross_kv.weight, {.bias = weights.cross_kv.bias});
  copy_into(cross.k, kv.narrow(2, 0, d).reshape_view(cross.k.shape()));
  copy_into(cross.v, kv.narrow(2, d, d).reshape_view(cross.v.shape()));
  std::vector<int32_t> values;
  for (int64_t i = 0; i < tokens; ++i) values.push_back(static_cast<int32_t>(i % length));
  for (int64_t i = 0; i < tokens; ++i) values.push_back(static_cast<int32_t>(i / length));
  values.insert(values.end(), static_cast<size_t>(tokens), static_cast<int32_t>(positions - 1));
  const Array inputs = from_host(values.data(), {3, tokens}, DType::int32, w.device);
  DecoderPass pass = DecoderPass::allocate(w, tokens, 0);
  pass.x = x.reshape_view({tokens, d});
  pass.positions = inputs.select(0, 0);
  pass.sequences = pass.windows = inputs.select(0, 1);
  pass.last_keys = inputs.select(0, 2);
  decode_self(weights, pass, self);
  decode_cross(weights, pass, cross);
  return x;
}

WhisperDecoder::WhisperDecoder(const WhisperWeights& weights, int64_t windows, int64_t sequences)
    : weights_(weights), windows_(windows), sequences_(sequences) {
  const WhisperConfig& c = weights.config;
  const int64_t heads = c.decoder_attention_heads, dim = c.d_model / heads;
  // A CPU reads the keys of one head after the other: they lie side by side there.
  const bool by_head = weights.device.kind == DeviceKind::cpu;
  const auto make = [&](int64_t count, int64_t tokens) {
    KvCache cache;
    for (Array* part : {&cache.k, &cache.v})
      *part = by_head ? Array::empty({count, heads, tokens, dim}, weights.dtype, weights.device).permute({0, 2, 1, 3})
                      : Array::empty({count, tokens, heads, dim}, weights.dtype, weights.device);
    return cache;
  };
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    self_.push_back(make(sequences, c.max_target_positions));
    cross_.push_back(make(windows, c.max_source_positions));
  }
}

void WhisperDecoder::listen(int64_t window, const Array& encoded) {
  const WhisperConfig& c = weights_.config;
  if (window < 0 || window >= windows_) throw OutOfRangeError("WhisperDecoder.listen", window, windows_);
  if (!(encoded.shape() == Dims{c.max_source_positions, c.d_model}))
    throw ShapeError("WhisperDecoder.listen", "encoded", "have shape " + Dims{c.max_source_positions, c.d_model}.str(),
                     encoded.shape().str());
  const Array kv = Array::empty({c.max_source_positions, 2 * c.d_model}, weights_.dtype, weights_.device);
  for (size_t i = 0; i < cross_.size(); ++i) {
    project(encoded, weights_.decoder[i].cross_kv, kv);
    const Array k = cross_[i].k.select(0, window), v = cross_[i].v.select(0, window);
    copy_into(k, kv.narrow(1, 0, c.d_model).reshape_view(k.shape()));
    copy_into(v, kv.narrow(1, c.d_model, c.d_model).reshape_view(v.shape()));
  }
}

void WhisperDecoder::check(const DecoderToken& token) const {
  const WhisperConfig& c = weights_.config;
  const auto within = [](int64_t value, int64_t least, int64_t limit) {
    if (value < least || value >= limit) throw OutOfRangeError("WhisperDecoder", value, limit);
  };
  within(token.id, 0, c.vocab_size);
  within(token.position, 0, c.max_target_positions);
  within(token.sequence, -1, sequences_);
  within(token.window, -1, windows_);
}

DecoderPass WhisperDecoder::prepare(std::span<const DecoderToken> tokens, std::span<const int32_t> rows) const {
  const size_t n = tokens.size();
  std::vector<int32_t> values(5 * n);
  for (size_t i = 0; i < n; ++i) {
    check(tokens[i]);
    values[i] = tokens[i].id;
    values[n + i] = tokens[i].position;
    values[2 * n + i] = tokens[i].sequence;
    values[3 * n + i] = tokens[i].window;
    values[4 * n + i] = static_cast<int32_t>(weights_.config.max_source_positions - 1);
  }
  const auto count = static_cast<int64_t>(n);
  for (const int32_t row : rows)
    if (row < 0 || row >= count) throw OutOfRangeError("WhisperDecoder", row, count);
  DecoderPass pass = DecoderPass::allocate(weights_, count, static_cast<int64_t>(rows.size()));
  const Array inputs = from_host(values.data(), {5, count}, DType::int32, weights_.device);
  for (int64_t i = 0; Array * row : {&pass.ids, &pass.positions, &pass.sequences, &pass.windows, &pass.last_keys})
    *row = inputs.select(0, i++);
  pass.rows = from_host(rows.data(), {static_cast<int64_t>(rows.size())}, DType::int32, weights_.device);
  return pass;
}

struct WhisperDecoder::Look {
  std::span<const std::pair<int64_t, int64_t>> heads;
  int64_t window;
  Array out;  // float32 [heads, tokens, positions]
};

void WhisperDecoder::run(const DecoderPass& pass, const Look* look) const {
  embedding(weights_.token_table, pass.ids, &pass.x);
  embedding(weights_.decoder_positions, pass.positions, &pass.places);
  add(pass.x, pass.places, &pass.x);
  for (size_t i = 0; i < weights_.decoder.size(); ++i) {
    decode_self(weights_.decoder[i], pass, self_[i]);
    if (look != nullptr) note(*look, pass, i);
    decode_cross(weights_.decoder[i], pass, cross_[i]);
  }
  if (look != nullptr) return;
  if (pass.rows.defined()) embedding(pass.x, pass.rows, &pass.chosen);
  normalize(pass.rows.defined() ? pass.chosen : pass.x, weights_.decoder_norm, pass.chosen);
  linear(pass.chosen, weights_.head, {}, &pass.logits);
}

Array WhisperDecoder::read(std::span<const DecoderToken> tokens, std::span<const int32_t> rows) {
  if (tokens.empty() || rows.empty()) return Array::empty({0, vocab_size()}, weights_.dtype, weights_.device);
  const DecoderPass pass = prepare(tokens, rows);
  run(pass);
  return pass.logits;
}

void WhisperDecoder::copy_sequence(int64_t from, int64_t to, int64_t tokens) {
  if (from == to || tokens == 0) return;
  for (const KvCache& cache : self_)
    for (const Array* part : {&cache.k, &cache.v})
      copy_into(part->select(0, to).narrow(0, 0, tokens), part->select(0, from).narrow(0, 0, tokens));
}

void WhisperDecoder::note(const Look& look, const DecoderPass& pass, size_t layer) const {
  const double scale = 1.0 / std::sqrt(static_cast<double>(pass.q.shape(2)));
  for (size_t i = 0; i < look.heads.size(); ++i) {
    if (look.heads[i].first != static_cast<int64_t>(layer)) continue;
    const int64_t head = look.heads[i].second;
    const Array keys = cross_[layer].k.select(0, look.window).select(1, head);
    const Array out = look.out.select(0, static_cast<int64_t>(i));
    copy_into(out, matmul(pass.q.select(1, head), keys.transpose()));
    multiply(out, Scalar(scale), &out);
    softmax(out, -1, &out);
  }
}

std::vector<float> WhisperDecoder::cross_attention(std::span<const DecoderToken> tokens,
                                                   std::span<const std::pair<int64_t, int64_t>> heads) {
  if (tokens.empty() || heads.empty()) return {};
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  const int32_t first = 0;
  const DecoderPass pass = prepare(tokens, {&first, 1});
  const Look look{heads, std::max(tokens.front().window, 0),
                  Array::empty({static_cast<int64_t>(heads.size()), num_tokens, weights_.config.max_source_positions},
                               DType::float32, weights_.device)};
  run(pass, &look);
  std::vector<float> values(static_cast<size_t>(look.out.size()));
  to_host(values.data(), look.out, "WhisperDecoder.cross_attention");
  return values;
}

}  // namespace gpukit::asr
