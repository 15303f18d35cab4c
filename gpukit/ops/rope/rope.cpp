#include "gpukit/ops/rope/rope.h"

#include <cstring>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/rope/rope_impl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit {

namespace {

void check_activations(const char* op, const char* argument, const Array& a) {
  if (a.dtype() != DType::float16 && a.dtype() != DType::bfloat16 && a.dtype() != DType::float32)
    unsupported_dtype(op, argument, a.dtype(), "have dtype float16, bfloat16 or float32");
}

void check_device(const char* op, const char* argument, const Array& a, const char* first, const Array& x) {
  if (a.device() == x.device()) return;
  throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", " + first + " is on " +
                    str(x.device()) + "; move one with x.to(device)");
}

void check_apart(const char* op, const char* name_a, const Array& a, const char* name_b, const Array& b) {
  if (a.defined() && b.defined() && !lie_apart(a, b))
    throw ArgumentError(std::string(op) + ": " + name_a + " and " + name_b + " share memory");
}

void check_written(const char* op, const char* argument, const Array& a) {
  if (has_internal_overlap(a))
    throw ArgumentError(std::string(op) + ": " + argument + " reaches some of its memory twice and cannot be written");
}

/// rotary_dim / 2 after checks; `dim` is that of a head.
int64_t checked_pairs(const char* op, const RopeOptions& options, int64_t dim) {
  const int64_t rotary = options.rotary_dim == 0 ? dim : options.rotary_dim;
  if (rotary < 0 || rotary > dim || rotary % 2 != 0)
    throw ArgumentError(std::string(op) + ": rotary_dim must be even and at most the " + std::to_string(dim) +
                        " dims of a head, got " + std::to_string(rotary));
  return rotary / 2;
}

void check_tables(const char* op, const Array& cos, const Array& sin, int64_t pairs, const char* first,
                  const Array& x) {
  for (const auto& [name, table] : {std::pair{"cos", &cos}, std::pair{"sin", &sin}}) {
    check_device(op, name, *table, first, x);
    if (table->dtype() != DType::float32 && table->dtype() != x.dtype())
      unsupported_dtype(op, name, table->dtype(), "have dtype float32 or that of the data");
    if (table->ndim() != 2 || table->shape()[1] < pairs)
      throw ShapeError(op, name, "have shape [positions, at least " + std::to_string(pairs) + "]",
                       table->shape().str());
  }
  check_dtype(op, "sin", sin, cos.dtype());
  if (sin.shape()[0] != cos.shape()[0])
    throw ShapeError(op, "sin", "have the " + std::to_string(cos.shape()[0]) + " positions of cos", sin.shape().str());
}

void check_int32_row(const char* op, const char* argument, const Array& a, int64_t tokens, const char* first,
                     const Array& x) {
  check_device(op, argument, a, first, x);
  check_dtype(op, argument, a, DType::int32);
  check_shape(op, argument, a, {tokens});
}

}  // namespace

void rope_pair(const char* op, const Array& q, const Array& k, const Array& cos, const Array& sin,
               const Array& positions, const RopeOptions& options) {
  const bool both = k.defined();
  const char* const first = both ? "q" : "x";
  check_activations(op, first, q);
  check_ndim(op, first, q, 3);
  check_written(op, first, q);
  const int64_t pairs = checked_pairs(op, options, q.shape()[2]);
  if (both) {
    check_device(op, "k", k, "q", q);
    check_dtype(op, "k", k, q.dtype());
    if (k.ndim() != 3 || k.shape()[0] != q.shape()[0] || k.shape()[2] != q.shape()[2])
      throw ShapeError(op, "k", "have the tokens and dims of q " + q.shape().str(), k.shape().str());
    check_written(op, "k", k);
    check_apart(op, "q", q, "k", k);
  }
  check_tables(op, cos, sin, pairs, first, q);
  if (positions.defined()) {
    check_int32_row(op, "positions", positions, q.shape()[0], first, q);
  } else if (cos.shape()[0] < q.shape()[0]) {
    throw ShapeError(op, "cos", "have at least " + std::to_string(q.shape()[0]) + " rows", cos.shape().str());
  }
  if ((q.size() == 0 && (!both || k.size() == 0)) || pairs == 0) return;
  const RopeCall call{op, q, k, cos, sin, positions, pairs, options.interleaved};
  switch (q.device().kind) {
    case DeviceKind::cpu: cpu::rope(call); break;
    case DeviceKind::cuda: cuda::rope(call); break;
  }
}

void rope(const Array& x, const Array& cos, const Array& sin, const Array& positions, const RopeOptions& options) {
  rope_pair("rope", x, {}, cos, sin, positions, options);
}

void qkv_rope_append(const Array& qkv, const Array& q_out, const KvCache& cache, const Array& sequence_ids,
                     const Array& positions, const QkvOptions& options) {
  constexpr const char* kOp = "qkv_rope_append";
  check_activations(kOp, "qkv", qkv);
  check_ndim(kOp, "qkv", qkv, 2);
  check_ndim(kOp, "q_out", q_out, 3);
  QkvCall call{};
  QkvParams& p = call.params;
  p.cache = cache_layout(kOp, cache, "qkv", qkv, true);
  p.tokens = qkv.shape()[0];
  const int64_t heads = q_out.shape()[1], dim = q_out.shape()[2], kv_heads = cache.k.shape()[2];
  if (dim % 2 != 0) throw ShapeError(kOp, "q_out", "have an even number of dims", q_out.shape().str());
  result(kOp, &q_out, {p.tokens, heads, dim}, qkv.dtype(), qkv.device());
  if (cache.k.shape()[3] != dim)
    throw ShapeError(kOp, "cache.k", "have " + std::to_string(dim) + " dims", cache.k.shape().str());
  check_shape(kOp, "qkv", qkv, {p.tokens, (heads + 2 * kv_heads) * dim});
  check_int32_row(kOp, "sequence_ids", sequence_ids, p.tokens, "qkv", qkv);
  check_int32_row(kOp, "positions", positions, p.tokens, "qkv", qkv);
  p.id_step = sequence_ids.strides()[0];
  p.position_step = positions.strides()[0];
  auto optional_row = [&](const char* name, const Array& a, int64_t size) -> int64_t {
    if (!a.defined()) return 0;
    check_device(kOp, name, a, "qkv", qkv);
    check_dtype(kOp, name, a, qkv.dtype());
    check_shape(kOp, name, a, {size});
    return a.strides()[0];
  };
  p.bias_step = optional_row("bias", options.bias, (heads + 2 * kv_heads) * dim);
  p.q_norm_step = optional_row("q_norm", options.q_norm, dim);
  p.k_norm_step = optional_row("k_norm", options.k_norm, dim);
  if (options.cos.defined() != options.sin.defined())
    throw ArgumentError(std::string(kOp) + ": cos and sin come together");
  if (options.cos.defined()) {
    p.pairs = static_cast<int32_t>(checked_pairs(kOp, options.rope, dim));
    check_tables(kOp, options.cos, options.sin, p.pairs, "qkv", qkv);
    check_dtype(kOp, "cos", options.cos, DType::float32);
    p.num_positions = options.cos.shape()[0];
    p.cos_row = options.cos.strides()[0];
    p.cos_step = options.cos.strides()[1];
    p.sin_row = options.sin.strides()[0];
    p.sin_step = options.sin.strides()[1];
  }
  check_cache_apart(kOp, cache);
  const std::pair<const char*, const Array*> written[] = {
      {"q_out", &q_out}, {"cache.k", &cache.k}, {"cache.v", &cache.v}};
  for (const auto& [name, a] : written) {
    if (a != &q_out) {
      check_apart(kOp, "q_out", q_out, name, *a);
      check_apart(kOp, name, *a, "qkv", qkv);
    }
    for (const auto& [other, b] :
         {std::pair{"cache.k_scale", &cache.k_scale}, std::pair{"cache.v_scale", &cache.v_scale},
          std::pair{"cache.block_tables", &cache.block_tables}, std::pair{"sequence_ids", &sequence_ids},
          std::pair{"positions", &positions}, std::pair{"bias", &options.bias}, std::pair{"q_norm", &options.q_norm},
          std::pair{"k_norm", &options.k_norm}, std::pair{"cos", &options.cos}, std::pair{"sin", &options.sin}})
      check_apart(kOp, name, *a, other, *b);
  }
  p.heads = static_cast<int32_t>(heads);
  p.kv_heads = static_cast<int32_t>(kv_heads);
  p.dim = static_cast<int32_t>(dim);
  p.interleaved = options.rope.interleaved ? 1 : 0;
  p.qkv_row = qkv.strides()[0];
  p.qkv_step = qkv.strides()[1];
  p.q_row = q_out.strides()[0];
  p.q_head = q_out.strides()[1];
  p.q_step = q_out.strides()[2];
  p.eps = static_cast<float>(options.norm_eps);
  p.fault_op = runtime::fault_code(kOp);
  if (qkv.size() == 0) return;
  call.cache = cache;
  call.sequence_ids = sequence_ids;
  call.positions = positions;
  call.bias = options.bias;
  call.q_norm = options.q_norm;
  call.k_norm = options.k_norm;
  call.cos = options.cos;
  call.sin = options.sin;
  call.qkv = qkv;
  call.q_out = q_out;
  Temporaries temporaries(kOp);
  // A head's elements are read before they are written: only another layout needs a copy.
  const Dims q_shape{p.tokens, heads, dim};
  const Array own = qkv.narrow(1, 0, heads * dim);
  if (may_share_memory(q_out, qkv) && (!own.can_view(q_shape) || partially_overlap(q_out, own.reshape_view(q_shape)))) {
    call.qkv = copy(qkv, temporaries);
    p.qkv_row = call.qkv.strides()[0];
    p.qkv_step = call.qkv.strides()[1];
  }
  switch (qkv.device().kind) {
    case DeviceKind::cpu: cpu::qkv_rope_append(call); break;
    case DeviceKind::cuda: cuda::qkv_rope_append(call); break;
  }
}

void split_qkv(const Array& qkv, const Array& q, const Array& k, const Array& v) {
  constexpr const char* kOp = "split_qkv_batch";
  check_ndim(kOp, "qkv", qkv, 2);
  const int64_t tokens = qkv.shape()[0];
  const std::pair<const char*, const Array*> parts[] = {{"q_out", &q}, {"k_out", &k}, {"v_out", &v}};
  int64_t at = 0;
  bool shared = false;
  for (const auto& [name, part] : parts) {
    check_device(kOp, name, *part, "qkv", qkv);
    check_dtype(kOp, name, *part, qkv.dtype());
    const int64_t width = tokens == 0 ? 0 : part->size() / tokens;
    if (part->ndim() == 0 || part->shape()[0] != tokens || at + width > qkv.shape()[1])
      throw ShapeError(kOp, name, "hold its columns of qkv " + qkv.shape().str(), part->shape().str());
    check_written(kOp, name, *part);
    for (const auto& [other, b] : parts)
      if (std::strcmp(name, other) < 0) check_apart(kOp, name, *part, other, *b);
    shared = shared || may_share_memory(*part, qkv);
    at += width;
  }
  Temporaries temporaries(kOp);
  const Array from = shared ? copy(qkv, temporaries) : qkv;
  at = 0;
  for (const auto& [name, part] : parts) {
    if (part->size() == 0) continue;
    const int64_t width = part->size() / tokens;
    const Array columns = from.narrow(1, at, width);
    Dims shape = part->shape();
    copy_into(*part, columns.can_view(shape) ? columns.reshape_view(shape)
                                             : contiguous(columns, temporaries).reshape_view(shape));
    at += width;
  }
}

}  // namespace gpukit
