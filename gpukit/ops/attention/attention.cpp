#include "gpukit/ops/attention/attention.h"

#include <cmath>

#include "gpukit/base/number_text.h"
#include "gpukit/ops/attention/attention_impl.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/runtime/fault.h"

namespace gpukit {

namespace {

void check_data(const char* op, const char* argument, const Array& a) {
  if (a.dtype() != DType::float16 && a.dtype() != DType::bfloat16 && a.dtype() != DType::float32)
    unsupported_dtype(op, argument, a.dtype(), "have dtype float16, bfloat16 or float32");
}

void check_device(const char* op, const char* argument, const Array& a, const Array& q) {
  if (a.device() == q.device()) return;
  throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", q is on " + str(q.device()) +
                    "; move one with x.to(device)");
}

[[noreturn]] void refuse(const char* op, const std::string& what) {
  throw ArgumentError(std::string(op) + ": " + what);
}

void check_int32_row(const char* op, const char* argument, const Array& a, int64_t size, const Array& q) {
  check_device(op, argument, a, q);
  check_dtype(op, argument, a, DType::int32);
  check_shape(op, argument, a, {size});
}

/// A window over all keys is none, whatever its size: positions plus it cannot overflow. `reach`: one more than a key
/// can be away from a position.
int64_t window_within(int64_t window, int64_t reach) { return window < reach ? window : 0; }

/// Heads, dim and scores. `q` ends in [heads, dim].
void set_scores(const char* op, const Array& q, int64_t kv_heads, const ScoreOptions& options, AttentionCall* call) {
  AttentionParams& p = call->params;
  const int64_t heads = q.shape(-2), dim = q.shape(-1);
  if (dim < 1 || dim > kMaxHeadDim) throw ShapeError(op, "q", "have 1 to 256 dims", q.shape().str());
  if (heads > 0 && (kv_heads == 0 || heads % kv_heads != 0))
    throw ShapeError(op, "q", "have a multiple of the " + std::to_string(kv_heads) + " KV heads", q.shape().str());
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim)));
  if (!std::isfinite(scale)) refuse(op, "scale must be finite, got " + number_text(scale));
  if (!(options.softcap >= 0) || !std::isfinite(options.softcap))
    refuse(op, "softcap must be finite and not negative, got " + std::to_string(options.softcap));
  if (options.window < 0) refuse(op, "window must not be negative, got " + std::to_string(options.window));
  if (options.chunk < 0) refuse(op, "chunk must not be negative, got " + std::to_string(options.chunk));
  p.heads = static_cast<int32_t>(heads);
  p.group = kv_heads == 0 || heads == 0 ? 1 : static_cast<int32_t>(heads / kv_heads);
  p.dim = static_cast<int32_t>(dim);
  p.scale = static_cast<float>(scale);
  p.softcap = static_cast<float>(options.softcap);
  p.window = options.window;
  p.chunk = options.chunk;
  p.fault_op = runtime::fault_code(op);
  if (!options.alibi_slopes.defined()) return;
  check_device(op, "alibi_slopes", options.alibi_slopes, q);
  check_dtype(op, "alibi_slopes", options.alibi_slopes, DType::float32);
  check_shape(op, "alibi_slopes", options.alibi_slopes, {heads});
  call->slopes = options.alibi_slopes;
  p.slope_step = options.alibi_slopes.strides()[0];
}

void set_mask(const char* op, const Array& mask, const Dims& scores, AttentionCall* call) {
  if (!mask.defined()) return;
  check_device(op, "mask", mask, call->q);
  AttentionParams& p = call->params;
  if (mask.dtype() == DType::boolean)
    p.mask = MaskKind::boolean;
  else if (mask.dtype() == DType::float32)
    p.mask = MaskKind::float32;
  else if (mask.dtype() == call->q.dtype())
    p.mask = MaskKind::data;
  else
    unsupported_dtype(op, "mask", mask.dtype(), "have dtype bool, float32 or that of q");
  if (mask.ndim() > 4)
    throw ShapeError(op, "mask", "broadcast to [batch, heads, queries, keys] " + scores.str(), mask.shape().str());
  for (int i = 1; i <= mask.ndim(); ++i)
    if (mask.shape(-i) != 1 && mask.shape(-i) != scores[4 - i])
      throw ShapeError(op, "mask", "broadcast to [batch, heads, queries, keys] " + scores.str(), mask.shape().str());
  call->mask = mask.broadcast_to(scores);
  const Dims& strides = call->mask.strides();
  p.mask_batch = strides[0];
  p.mask_head = strides[1];
  p.mask_query = strides[2];
  p.mask_key = strides[3];
}

/// Runs the call into `target`, through a temporary where its memory meets that of an input.
void submit(AttentionCall& call, const Array& target) {
  if (target.size() == 0) return;
  Temporaries temporaries(call.op);
  bool shared = false;
  for (const Array* a : {&call.q, &call.cache.k, &call.cache.v, &call.cache.k_scale, &call.cache.v_scale,
                         &call.cache.block_tables, &call.first, &call.second, &call.mask, &call.slopes, &call.lse})
    shared = shared || (a->defined() && may_share_memory(target, *a));
  call.out = shared ? temporaries.empty_like(target) : target;
  const Dims& strides = call.out.strides();
  AttentionParams& p = call.params;
  p.out = strides.rank() == 4 ? RowStrides{strides[0], strides[1], strides[2], strides[3]}
                              : RowStrides{0, strides[0], strides[1], strides[2]};
  switch (target.device().kind) {
    case DeviceKind::cpu: cpu::attention(call); break;
    case DeviceKind::cuda: cuda::attention(call); break;
  }
  if (shared) copy_into(target, call.out);
}

AttentionCall plan(const char* op, const Array& q, const KvCache& cache, const AttentionOptions& options) {
  check_data(op, "q", q);
  check_ndim(op, "q", q, 4);
  AttentionCall call{};
  call.op = op;
  call.q = q;
  call.cache = cache;
  AttentionParams& p = call.params;
  p.cache = cache_layout(op, cache, "q", q, false);
  const int64_t batch = q.shape()[0], queries = q.shape()[1], heads = q.shape()[2];
  if (p.cache.sequences != batch || cache.k.shape()[3] != q.shape()[3])
    throw ShapeError(op, "q", "have the batches and dims of the keys", q.shape().str());
  set_scores(op, q, cache.k.shape()[2], options.score, &call);
  p.causal = options.causal ? 1 : 0;
  p.positioned = options.first_position ? 1 : 0;
  p.first_position = options.first_position.value_or(0);
  if (std::abs(p.first_position) > INT32_MAX) refuse(op, "the first position is out of range");
  p.window = window_within(p.window, queries + p.cache.max_pages * p.cache.page_size + std::abs(p.first_position));
  p.tokens = batch * queries;
  p.queries = queries;
  p.q = {q.strides()[0], q.strides()[1], q.strides()[2], q.strides()[3]};
  set_mask(op, options.mask, {batch, heads, queries, p.cache.max_pages * p.cache.page_size}, &call);
  if (options.q_lengths.defined()) {
    check_int32_row(op, "q_lengths", options.q_lengths, batch, q);
    call.first = options.q_lengths;
    p.first_step = call.first.strides()[0];
  }
  if (options.k_lengths.defined()) {
    check_int32_row(op, "k_lengths", options.k_lengths, batch, q);
    call.second = options.k_lengths;
    p.second_step = call.second.strides()[0];
  }
  return call;
}

void check_scale(const char* op, const char* argument, const Array& scale, bool needed) {
  if (scale.defined() != needed)
    refuse(op, std::string(argument) + (needed ? " is needed with float8_e4m3" : " is taken with float8_e4m3 alone"));
}

/// k and v as the cache of their batches.
KvCache whole_arrays(const char* op, const Array& q, const Array& k, const Array& v, const AttentionOptions& options) {
  check_ndim(op, "q", q, 4);
  const bool coded = k.dtype() == DType::float8_e4m3;
  for (const auto& [name, a] : {std::pair{"k", &k}, std::pair{"v", &v}}) {
    check_device(op, name, *a, q);
    check_dtype(op, name, *a, coded ? k.dtype() : q.dtype());
    check_ndim(op, name, *a, 4);
  }
  check_scale(op, "k_scale", options.k_scale, coded);
  check_scale(op, "v_scale", options.v_scale, coded);
  check_shape(op, "k", k, {q.shape()[0], k.shape()[1], k.shape()[2], q.shape()[3]});
  check_shape(op, "v", v, k.shape());
  return {.k = k, .v = v, .k_scale = options.k_scale, .v_scale = options.v_scale, .block_tables = {}};
}

/// Queries as bfloat16, which holds float8 exactly; their scale goes to the keys. `runs`: not only their layout.
struct WideQueries {
  Array q;
  AttentionOptions options;
};
WideQueries widen_queries(const char* op, const Array& q, const Array& k, const AttentionOptions& options,
                          Temporaries& temporaries, bool runs) {
  const bool coded = q.dtype() == DType::float8_e4m3;
  check_scale(op, "q_scale", options.q_scale, coded);
  if (!coded) {
    check_data(op, "q", q);
    return {q, options};
  }
  check_ndim(op, "k", k, 4);
  check_device(op, "k", k, q);
  check_dtype(op, "k", k, DType::float8_e4m3);
  check_scale(op, "k_scale", options.k_scale, true);
  for (const auto& [name, a] : {std::pair{"q_scale", &options.q_scale}, std::pair{"k_scale", &options.k_scale}}) {
    check_device(op, name, *a, q);
    check_dtype(op, name, *a, DType::float32);
    check_shape(op, name, *a, {k.shape()[2]});
  }
  WideQueries wide{temporaries.empty(q.shape(), DType::bfloat16, q.device()), options};
  wide.options.k_scale = temporaries.empty(options.k_scale.shape(), DType::float32, q.device());
  if (!runs) return wide;
  copy_into(wide.q, q);
  multiply(options.q_scale, options.k_scale, &wide.options.k_scale);
  return wide;
}

}  // namespace

Array attention_of_cache(const char* op, const Array& q, const KvCache& cache, const AttentionOptions& options,
                         const Array* out, const Array* lse) {
  AttentionCall call = plan(op, q, cache, options);
  const Array target = result(op, out, q.shape(), q.dtype(), q.device());
  if (lse != nullptr) {
    result(op, lse, {q.shape()[0], q.shape()[2], q.shape()[1]}, DType::float32, q.device());
    for (const Array* a : {&q, &cache.k, &cache.v, &target, &options.mask})
      if (a->defined() && may_share_memory(*lse, *a)) refuse(op, "lse shares memory with another argument");
    call.lse = *lse;
    call.params.lse = {lse->strides()[0], lse->strides()[2], lse->strides()[1], 0};
  }
  submit(call, target);
  return target;
}

Array attention(const char* op, const Array& q, const Array& k, const Array& v, const AttentionOptions& options,
                const Array* out, const Array* lse) {
  Temporaries temporaries(op);
  const WideQueries wide = widen_queries(op, q, k, options, temporaries, true);
  return attention_of_cache(op, wide.q, whole_arrays(op, wide.q, k, v, wide.options), wide.options, out, lse);
}

Array attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& options, const Array* out,
                const Array* lse) {
  return attention("attention", q, k, v, options, out, lse);
}

namespace {

AttentionCall plan_over_cache(const char* op, const Array& q, const KvCache& cache, const Array& sequence_ids,
                              const Array& positions, const ScoreOptions& options) {
  check_data(op, "q", q);
  check_ndim(op, "q", q, 3);
  AttentionCall call{};
  call.op = op;
  call.q = q;
  call.cache = cache;
  AttentionParams& p = call.params;
  p.cache = cache_layout(op, cache, "q", q, false);
  p.over_cache = 1;
  p.tokens = p.queries = q.shape()[0];
  p.q = {0, q.strides()[0], q.strides()[1], q.strides()[2]};
  if (cache.k.shape()[3] != q.shape()[2])
    throw ShapeError(op, "cache.k", "have " + std::to_string(q.shape()[2]) + " dims", cache.k.shape().str());
  set_scores(op, q, cache.k.shape()[2], options, &call);
  p.window = window_within(p.window, p.cache.max_pages * p.cache.page_size);
  check_int32_row(op, "sequence_ids", sequence_ids, p.tokens, q);
  check_int32_row(op, "positions", positions, p.tokens, q);
  call.first = sequence_ids;
  call.second = positions;
  p.first_step = sequence_ids.strides()[0];
  p.second_step = positions.strides()[0];
  return call;
}

std::string explain(const AttentionCall& call) {
  if (call.q.device().kind == DeviceKind::cuda) return cuda::explain_attention(call);
  return "cpu: blocks of queries by tiles of " + std::to_string(kKeyTile) +
         " keys (gpukit/ops/attention/attention_cpu.cpp)";
}

}  // namespace

Array attention_over_cache(const char* op, const Array& q, const KvCache& cache, const Array& sequence_ids,
                           const Array& positions, const ScoreOptions& options, const Array* out) {
  AttentionCall call = plan_over_cache(op, q, cache, sequence_ids, positions, options);
  const Array target = result(op, out, q.shape(), q.dtype(), q.device());
  submit(call, target);
  return target;
}

Array attention_over_cache(const Array& q, const KvCache& cache, const Array& sequence_ids, const Array& positions,
                           const ScoreOptions& options, const Array* out) {
  return attention_over_cache("attention_over_cache", q, cache, sequence_ids, positions, options, out);
}

std::string explain_attention(const Array& q, const Array& k, const Array& v, const AttentionOptions& options) {
  constexpr const char* kOp = "explain_attention";
  Temporaries temporaries(kOp);
  const WideQueries wide = widen_queries(kOp, q, k, options, temporaries, false);
  return explain(plan(kOp, wide.q, whole_arrays(kOp, wide.q, k, v, wide.options), wide.options));
}

std::string explain_attention_over_cache(const Array& q, const KvCache& cache, const Array& sequence_ids,
                                         const Array& positions, const ScoreOptions& options) {
  return explain(plan_over_cache("explain_attention_over_cache", q, cache, sequence_ids, positions, options));
}

}  // namespace gpukit
