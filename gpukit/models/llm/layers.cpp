#include "gpukit/models/llm/layers.h"

#include "gpukit/ops/attention/attention.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/ops/norm/norm.h"
#include "gpukit/ops/rope/positions.h"

namespace gpukit::llm {

ForwardBuffers ForwardBuffers::allocate(const TransformerConfig& config, DType dtype, int64_t tokens, Device device) {
  const auto buffer = [&](int64_t width) { return Array::empty({tokens, width}, dtype, device); };
  return {buffer(config.hidden_size),
          buffer(config.hidden_size),
          buffer(config.qkv_size()),
          buffer(config.num_heads * config.dim()),
          buffer(config.mlp_size()),
          config.is_moe() ? buffer(config.hidden_size) : Array(),
          config.mlp_bias && config.mlp == MlpKind::silu ? buffer(config.mlp_size()) : Array()};
}

ForwardBuffers ForwardBuffers::first(int64_t tokens) const {
  const auto view = [&](const Array& a) { return a.defined() ? a.narrow(0, 0, tokens) : a; };
  return {view(hidden), view(normed), view(qkv), view(attended), view(mlp), view(experts), view(gate)};
}

Array Norm::operator()(const Array& x, const Array* out) const {
  return beta.defined() ? layernorm(x, gamma, beta, eps, out) : rmsnorm(x, gamma, eps, out);
}

Array Linear::operator()(const Array& x, const Array* out, const Array& residual) const {
  return linear(x, weight, {.bias = bias, .residual = residual}, out);
}

void AttentionLayer::forward(const Array& x, const TokenBatch& batch, const KvCache& cache,
                             const ForwardBuffers& buffers, const Array& residual, const Array& result) const {
  int64_t column = 0;
  for (const Weight& part : qkv) {
    const Array target = buffers.qkv.narrow(1, column, part.rows());
    linear(x, part, {}, &target);
    column += part.rows();
  }
  const int64_t tokens = x.shape(0);
  const Dims heads{tokens, num_heads, dim};
  const Array q = buffers.qkv.narrow(1, 0, num_heads * dim).reshape_view(heads);
  qkv_rope_append(buffers.qkv, q, cache, batch.sequence_ids, batch.positions,
                  {qkv_bias, q_norm, k_norm, norm_eps, cos, sin, rope});
  if (attn_scale != 0) irope_scale("Attention", q, batch.positions, attn_scale, floor_scale, &q);
  const Array attended = buffers.attended.reshape_view(heads);
  ScoreOptions score;
  score.window = window;
  score.chunk = chunk;
  attention_over_cache(q, cache, batch.sequence_ids, batch.positions, score, &attended);
  out(buffers.attended, &result, residual);
}

void MlpLayer::forward(const Array& x, const ForwardBuffers& buffers, const Array& residual, const Array& out) const {
  if (!gate.weight.defined()) {
    linear(x, up.weight, {.bias = up.bias, .activation = Activation::gelu}, &buffers.mlp);
  } else if (!gate.bias.defined()) {
    linear_swiglu(x, gate.weight, up.weight, &buffers.mlp);
  } else {
    linear(x, gate.weight, {.bias = gate.bias, .activation = Activation::silu}, &buffers.gate);
    up(x, &buffers.mlp);
    multiply(buffers.gate, buffers.mlp, &buffers.mlp);
  }
  down(buffers.mlp, &out, residual);
}

void MoeLayer::forward(const Array& x, const TokenBatch& batch, const ForwardBuffers& buffers, const Array& residual,
                       const Array& out) const {
  MoeOptions own = options;
  own.ids = batch.sequence_ids;
  moe(x, weights, own, &buffers.experts);
  add(residual, buffers.experts, &out);
}

int64_t MoeLayer::bytes_per_token() const {
  const double share = static_cast<double>(options.top_k) / static_cast<double>(weights.gate_up.experts());
  const int64_t all = weights.gate_up.nbytes() + weights.down.nbytes();
  int64_t bytes = weights.router.nbytes() + static_cast<int64_t>(static_cast<double>(all) * share);
  for (const Weight* shared : {&weights.shared_gate_up, &weights.shared_down, &weights.shared_gate})
    if (shared->defined()) bytes += shared->nbytes();
  return bytes;
}

void TransformerBlock::forward(const TokenBatch& batch, const KvCache& cache, const ForwardBuffers& buffers) const {
  attn_norm(buffers.hidden, &buffers.normed);
  attn.forward(buffers.normed, batch, cache, buffers, buffers.hidden, buffers.hidden);
  mlp_norm(buffers.hidden, &buffers.normed);
  if (const auto* dense = std::get_if<MlpLayer>(&mlp))
    dense->forward(buffers.normed, buffers, buffers.hidden, buffers.hidden);
  else
    std::get<MoeLayer>(mlp).forward(buffers.normed, batch, buffers, buffers.hidden, buffers.hidden);
}

}  // namespace gpukit::llm
