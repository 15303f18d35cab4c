#include "gpukit/models/llm/layer_calls.h"

#include <tuple>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/manipulate/manipulate.h"

namespace gpukit::llm {

namespace {

/// In device memory: a graph may hold it.
TokenBatch batch_at(const Array& x, const CacheStart& at, Temporaries& temporaries) {
  const Dims tokens{x.shape(0)};
  const Array positions = temporaries.empty(tokens, DType::int32, x.device());
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::sequence(positions, at.start, 1); break;
    case DeviceKind::cuda: cuda::sequence(positions, at.start, 1); break;
  }
  if (at.more.defined()) add_inplace(positions, at.more);
  const Array sequence_ids = temporaries.empty(tokens, DType::int32, x.device());
  fill(sequence_ids, 0);
  return {positions, positions, sequence_ids};
}

ForwardBuffers buffers_for(const AttentionLayer& layer, const Array& x, Temporaries& temporaries) {
  const auto buffer = [&](int64_t width) { return temporaries.empty({x.shape(0), width}, x.dtype(), x.device()); };
  ForwardBuffers buffers;
  buffers.qkv = buffer((layer.num_heads + 2 * layer.num_kv_heads) * layer.dim);
  buffers.attended = buffer(layer.num_heads * layer.dim);
  return buffers;
}

int64_t inner_size(const TransformerBlock& block) {
  const auto* dense = std::get_if<MlpLayer>(&block.mlp);
  return dense == nullptr ? 0 : dense->up.weight.rows();
}

void check_rows(const char* argument, const Linear& part, int64_t rows) {
  if (!part.weight.defined() || part.weight.rows() != rows)
    throw ShapeError("Attention", argument, "have " + std::to_string(rows) + " rows",
                     part.weight.defined() ? std::to_string(part.weight.rows()) : "none");
}

}  // namespace

AttentionLayer make_attention(const TransformerConfig& config, const AttentionParts& parts, int64_t layer) {
  config.check();
  AttentionLayer a;
  a.num_heads = config.num_heads;
  a.num_kv_heads = config.kv_heads();
  a.dim = config.dim();
  a.norm_eps = config.norm_eps;
  const int64_t q = a.num_heads * a.dim, kv = a.num_kv_heads * a.dim;
  const bool combined = parts.q.weight.defined() && parts.q.weight.rows() == q + 2 * kv && !parts.k.weight.defined();
  if (combined) {
    a.qkv = {parts.q.weight};
    a.qkv_bias = parts.q.bias;
  } else {
    check_rows("q_proj", parts.q, q);
    check_rows("k_proj", parts.k, kv);
    check_rows("v_proj", parts.v, kv);
    a.qkv = {parts.q.weight, parts.k.weight, parts.v.weight};
    if (!parts.q.weight.is_quantized() && !parts.k.weight.is_quantized() && !parts.v.weight.is_quantized()) {
      const Array matrices[] = {parts.q.weight.parts().data, parts.k.weight.parts().data, parts.v.weight.parts().data};
      a.qkv = {Weight(concat(matrices, 0))};
    }
    const Array biases[] = {parts.q.bias, parts.k.bias, parts.v.bias};
    if (biases[0].defined() && biases[1].defined() && biases[2].defined())
      a.qkv_bias = concat(biases, 0);
    else if (biases[0].defined() || biases[1].defined() || biases[2].defined())
      throw ArgumentError("Attention", "q_bias, k_bias and v_bias", "come together", "some of them");
  }
  a.q_norm = parts.q_norm;
  a.k_norm = parts.k_norm;
  a.out = parts.out;
  check_rows("o_proj", a.out, config.hidden_size);
  set_position_rules(config, layer, &a);
  if (!config.has_rope(layer)) return a;
  std::tie(a.cos, a.sin) = make_rope_tables(config, a.out.weight.device());
  if (config.unit_qk_norm) {
    const DType dtype = parts.q.weight.is_quantized() ? DType::float32 : parts.q.weight.dtype();
    a.q_norm = a.k_norm = ones({a.dim}, dtype, a.out.weight.device());
  }
  return a;
}

MoeLayer make_moe(const TransformerConfig& config, const Weight& router, const std::vector<ExpertMatrices>& experts) {
  config.check();
  if (static_cast<int64_t>(experts.size()) != config.num_experts)
    throw ArgumentError("MoELayer", "expert_weights", "be " + std::to_string(config.num_experts),
                        std::to_string(experts.size()));
  MoeLayer m;
  m.options.top_k = config.num_experts_per_tok;
  m.options.normalize = config.normalize_expert_weights;
  m.options.sigmoid_input = config.sigmoid_experts;
  m.weights.router = router;
  std::vector<Weight> gate_up, down;
  for (const ExpertMatrices& e : experts) {
    if (e.gate.is_quantized() || e.up.is_quantized())
      throw UnsupportedError("MoELayer: experts are joined from dense matrices");
    const Array pair[] = {e.gate.parts().data, e.up.parts().data};
    gate_up.emplace_back(concat(pair, 0));
    down.push_back(e.down);
  }
  m.weights.gate_up = ExpertWeights::stack(gate_up);
  m.weights.down = ExpertWeights::stack(down);
  return m;
}

Weight fp8_weight(const Array& codes, const Array& scale, const std::vector<int64_t>& block) {
  check_ndim("LinearFP8", "weight_fp8", codes, 2);
  if (block.size() != 2 || block[0] < 1 || block[1] < 1)
    throw ArgumentError("LinearFP8", "block_size", "be two positive numbers", std::to_string(block.size()) + " others");
  check_shape("LinearFP8", "scale_inv", scale,
              {(codes.shape(0) + block[0] - 1) / block[0], (codes.shape(1) + block[1] - 1) / block[1]});
  const Array bytes = codes.dtype() == DType::uint8 ? codes.bitcast(DType::float8_e4m3) : codes;
  return Weight(Quantized(bytes, astype(scale, DType::float32)));
}

KvCache extended_cache(const AttentionLayer& layer, const Array& past_k, const Array& past_v, int64_t tokens,
                       DType dtype, Device device) {
  const int64_t before = past_k.defined() ? past_k.shape(0) : 0;
  KvCache cache;
  for (const auto& [to, from] : {std::pair{&cache.k, &past_k}, {&cache.v, &past_v}}) {
    *to = Array::empty({1, before + tokens, layer.num_kv_heads, layer.dim}, dtype, device);
    if (!from->defined()) continue;
    check_shape("Attention", "past_kv", *from, {before, layer.num_kv_heads, layer.dim});
    copy_into(to->select(0, 0).narrow(0, 0, before), *from);
  }
  return cache;
}

KvCache expanded_cache(const Array& k, const Array& v, int64_t num_kv_heads) {
  const auto view = [&](const Array& a) {
    const int64_t heads = a.shape(0);
    return a.slice(0, 0, heads, heads / num_kv_heads).permute({1, 0, 2}).expand_dims(0);
  };
  KvCache cache;
  cache.k = view(k);
  cache.v = view(v);
  return cache;
}

Array call(const AttentionLayer& layer, const Array& x, const KvCache& cache, const CacheStart& at, const Array* out) {
  check_ndim("Attention", "x", x, 2);
  const Array target = result("Attention", out, {x.shape(0), layer.out.weight.rows()}, x.dtype(), x.device());
  Temporaries temporaries("Attention");
  const TokenBatch batch = batch_at(x, at, temporaries);
  layer.forward(x, batch, cache, buffers_for(layer, x, temporaries), {}, target);
  return target;
}

Array call(const MlpLayer& layer, const Array& x, const Array* out) {
  check_ndim("MLP", "x", x, 2);
  const Array target = result("MLP", out, {x.shape(0), layer.down.weight.rows()}, x.dtype(), x.device());
  Temporaries temporaries("MLP");
  ForwardBuffers buffers;
  buffers.mlp = temporaries.empty({x.shape(0), layer.up.weight.rows()}, x.dtype(), x.device());
  if (layer.gate.bias.defined()) buffers.gate = temporaries.empty_like(buffers.mlp);
  layer.forward(x, buffers, {}, target);
  return target;
}

Array call(const MoeLayer& layer, const Array& x, const Array* out) {
  return moe(x, layer.weights, layer.options, out);
}

Array call(const TransformerBlock& block, const Array& x, const KvCache& cache, int64_t start) {
  check_ndim("TransformerBlock", "x", x, 2);
  const Array out = copy(x);
  Temporaries temporaries("TransformerBlock");
  const TokenBatch batch = batch_at(x, {start}, temporaries);
  ForwardBuffers buffers = buffers_for(block.attn, x, temporaries);
  buffers.hidden = out;
  buffers.normed = temporaries.empty_like(x);
  buffers.experts = temporaries.empty_like(x);
  buffers.mlp = temporaries.empty({x.shape(0), inner_size(block)}, x.dtype(), x.device());
  buffers.gate = temporaries.empty_like(buffers.mlp);
  block.forward(batch, cache, buffers);
  return out;
}

}  // namespace gpukit::llm
