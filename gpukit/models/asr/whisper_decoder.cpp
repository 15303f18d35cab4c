#include "gpukit/models/asr/whisper_decoder.h"

#include <algorithm>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/attention/attention.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/norm/norm.h"
#include "gpukit/ops/rope/rope.h"
#include "gpukit/ops/softmax/softmax.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::asr {
namespace {

constexpr double kNormEps = 1e-5;

Array normalize(const Array& x, const NormWeights& norm, const Array& out) {
  return layernorm(x, norm.gamma, norm.beta, kNormEps, &out);
}

Array project(const Array& x, const LinearWeights& weights, const Array& out) {
  return linear(x, weights.weight, {.bias = weights.bias}, &out);
}

void project_onto(const Array& residual, const Array& x, const LinearWeights& weights) {
  linear(x, weights.weight, {.bias = weights.bias, .residual = residual}, &residual);
}

}  // namespace

/// Every array of a pass, so that a replay finds them where the capture did.
struct WhisperDecoder::Pass {
  Array inputs;                                            // int32 [5, tokens], the rows below
  Array ids, positions, sequences, windows, last_keys;     // int32 [tokens]
  Array rows;                                              // int32 [rows]
  Array x, h, places, wide, chosen, logits, float_logits;  // logits: [rows, vocab]
  Array qkv, q, mixed;                                     // q, mixed: [tokens, heads, dim]

  Pass(const WhisperWeights& w, int64_t tokens, int64_t num_rows) {
    const WhisperConfig& c = w.config;
    const auto make = [&](const Dims& shape) { return Array::empty(shape, w.dtype, w.device); };
    inputs = Array::empty({5, tokens}, DType::int32, w.device);
    for (int64_t i = 0; Array * row : {&ids, &positions, &sequences, &windows, &last_keys})
      *row = inputs.select(0, i++);
    rows = Array::empty({num_rows}, DType::int32, w.device);
    x = make({tokens, c.d_model});
    h = make(x.shape());
    places = make(x.shape());
    wide = make({tokens, c.decoder_ffn_dim});
    chosen = make({num_rows, c.d_model});
    logits = make({num_rows, c.vocab_size});
    float_logits = w.dtype == DType::float32 ? logits : Array::empty(logits.shape(), DType::float32, w.device);
    qkv = make({tokens, 3 * c.d_model});
    q = make({tokens, c.decoder_attention_heads, c.d_model / c.decoder_attention_heads});
    mixed = make(q.shape());
  }
};

WhisperDecoder::WhisperDecoder(const WhisperWeights& weights, int64_t windows, int64_t sequences)
    : weights_(weights), windows_(windows), sequences_(sequences) {
  const WhisperConfig& c = weights.config;
  const int64_t heads = c.decoder_attention_heads, dim = c.d_model / heads;
  const auto make = [&](int64_t count, int64_t tokens) {
    KvCache cache;
    for (Array* part : {&cache.k, &cache.v})
      *part = Array::empty({count, tokens, heads, dim}, weights.dtype, weights.device);
    return cache;
  };
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    self_.push_back(make(sequences, c.max_target_positions));
    cross_.push_back(make(windows, c.max_source_positions));
  }
}

WhisperDecoder::~WhisperDecoder() = default;

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

void WhisperDecoder::fill(Pass& pass, std::span<const DecoderToken> tokens, std::span<const int32_t> rows) const {
  const WhisperConfig& c = weights_.config;
  const size_t n = tokens.size();
  std::vector<int32_t> values(5 * n);
  for (size_t i = 0; i < n; ++i) {
    const DecoderToken& token = tokens[i];
    const auto check = [](int64_t value, int64_t least, int64_t limit) {
      if (value < least || value >= limit) throw OutOfRangeError("WhisperDecoder.forward", value, limit);
      return static_cast<int32_t>(value);
    };
    values[i] = check(token.id, 0, c.vocab_size);
    values[n + i] = check(token.position, 0, c.max_target_positions);
    values[2 * n + i] = check(token.sequence, -1, sequences_);
    values[3 * n + i] = check(token.window, -1, windows_);
    values[4 * n + i] = static_cast<int32_t>(c.max_source_positions - 1);
  }
  runtime::copy_from_host(write(pass.inputs), values.data(), values.size() * sizeof(int32_t));
  runtime::copy_from_host(write(pass.rows), rows.data(), rows.size_bytes());
}

struct WhisperDecoder::Look {
  std::span<const std::pair<int64_t, int64_t>> heads;
  int64_t window;
  Array out;  // float32 [heads, tokens, positions]
};

void WhisperDecoder::run(Pass& pass, const Look* look) const {
  embedding(weights_.token_table, pass.ids, &pass.x);
  embedding(weights_.decoder_positions, pass.positions, &pass.places);
  add(pass.x, pass.places, &pass.x);
  const Array mixed = pass.mixed.reshape_view(pass.x.shape()), q = pass.q.reshape_view(pass.x.shape());
  for (size_t i = 0; i < weights_.decoder.size(); ++i) {
    const DecoderLayer& layer = weights_.decoder[i];
    project(normalize(pass.x, layer.attention_norm, pass.h), layer.qkv, pass.qkv);
    qkv_rope_append(pass.qkv, pass.q, self_[i], pass.sequences, pass.positions, {});
    attention_over_cache(pass.q, self_[i], pass.sequences, pass.positions, {}, &pass.mixed);
    project_onto(pass.x, mixed, layer.out);
    project(normalize(pass.x, layer.cross_norm, pass.h), layer.cross_q, q);
    if (look != nullptr) note(*look, pass, i);
    attention_over_cache(pass.q, cross_[i], pass.windows, pass.last_keys, {}, &pass.mixed);
    project_onto(pass.x, mixed, layer.cross_out);
    project(normalize(pass.x, layer.mlp_norm, pass.h), layer.fc1, pass.wide);
    gelu_erf(pass.wide, &pass.wide);
    project_onto(pass.x, pass.wide, layer.fc2);
  }
  if (look != nullptr) return;
  embedding(pass.x, pass.rows, &pass.chosen);
  normalize(pass.chosen, weights_.decoder_norm, pass.chosen);
  linear(pass.chosen, weights_.head, {}, &pass.logits);
  if (pass.float_logits.dtype() != pass.logits.dtype()) copy_into(pass.float_logits, pass.logits);
}

std::span<const float> WhisperDecoder::forward(std::span<const DecoderToken> tokens, std::span<const int32_t> rows) {
  if (tokens.empty() || rows.empty()) return {};
  const auto num_tokens = static_cast<int64_t>(tokens.size()), num_rows = static_cast<int64_t>(rows.size());
  for (const int32_t row : rows)
    if (row < 0 || row >= num_tokens) throw OutOfRangeError("WhisperDecoder.forward", row, num_tokens);
  bool is_step = num_tokens == sequences_ && num_rows == num_tokens;
  for (int32_t i = 0; is_step && i < num_rows; ++i) is_step = rows[static_cast<size_t>(i)] == i;

  std::unique_ptr<Pass> own;
  if (is_step) {
    if (step_ == nullptr) step_ = std::make_unique<Pass>(weights_, num_tokens, num_rows);
    fill(*step_, tokens, rows);
    if (graph_ == nullptr) {
      auto graph = std::make_unique<runtime::Graph>(weights_.device);
      runtime::ScopedCapture capture(*graph);
      run(*step_);
      capture.end();
      graph_ = std::move(graph);
    }
    graph_->replay();
  } else {
    own = std::make_unique<Pass>(weights_, num_tokens, num_rows);
    fill(*own, tokens, rows);
    run(*own);
  }
  logits_.resize(static_cast<size_t>(num_rows * vocab_size()));
  to_host(logits_.data(), (is_step ? *step_ : *own).float_logits, "WhisperDecoder.forward");
  return logits_;
}

void WhisperDecoder::copy_sequence(int64_t from, int64_t to, int64_t tokens) {
  if (from == to || tokens == 0) return;
  for (const KvCache& cache : self_)
    for (const Array* part : {&cache.k, &cache.v})
      copy_into(part->select(0, to).narrow(0, 0, tokens), part->select(0, from).narrow(0, 0, tokens));
}

void WhisperDecoder::note(const Look& look, const Pass& pass, size_t layer) const {
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
  Pass pass(weights_, num_tokens, 1);
  const int32_t first = 0;
  fill(pass, tokens, {&first, 1});
  const Look look{heads, std::max(tokens.front().window, 0),
                  Array::empty({static_cast<int64_t>(heads.size()), num_tokens, weights_.config.max_source_positions},
                               DType::float32, weights_.device)};
  run(pass, &look);
  std::vector<float> values(static_cast<size_t>(look.out.size()));
  to_host(values.data(), look.out, "WhisperDecoder.cross_attention");
  return values;
}

}  // namespace gpukit::asr
