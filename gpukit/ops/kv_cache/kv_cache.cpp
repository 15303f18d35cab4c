#include "gpukit/ops/kv_cache/kv_cache.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/kv_cache/kv_cache_impl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit {

namespace {

CacheKind cache_kind(const char* op, DType dtype) {
  switch (dtype) {
    case DType::float16: return CacheKind::float16;
    case DType::bfloat16: return CacheKind::bfloat16;
    case DType::float32: return CacheKind::float32;
    case DType::float8_e4m3: return CacheKind::float8_e4m3;
    case DType::int8: return CacheKind::int8;
    default: unsupported_dtype(op, "cache.k", dtype, "have dtype float16, bfloat16, float32, float8_e4m3 or int8");
  }
}

/// One call of cache_layout.
struct Check {
  const char *op, *first;
  const Array& x;
  bool written;
  CacheKind kind;

  void device(const char* name, const Array& a) const {
    if (a.device() == x.device()) return;
    throw DeviceError(std::string(op) + ": " + name + " is on " + str(a.device()) + ", " + first + " is on " +
                      str(x.device()) + "; move one with x.to(device)");
  }
  void overlap(const char* name, const Array& a) const {
    if (written && has_internal_overlap(a))
      throw ArgumentError(std::string(op) + ": " + name + " reaches some of its memory twice and cannot be written");
  }

  CacheStrides strides(const char* name, const char* scale_name, const Array& a, const Array& scale) const {
    device(name, a);
    overlap(name, a);
    CacheStrides s{a.strides()[0], a.strides()[1], a.strides()[2], a.strides()[3], 0, 0, 0};
    const bool scaled = kind == CacheKind::float8_e4m3 || kind == CacheKind::int8;
    if (scaled != scale.defined())
      throw ArgumentError(std::string(op) + ": " + scale_name + (scaled ? " is needed" : " is not taken") +
                          " with a cache of " + gpukit::name(a.dtype()));
    if (!scaled) return s;
    device(scale_name, scale);
    check_dtype(op, scale_name, scale, DType::float32);
    if (kind == CacheKind::float8_e4m3) {
      check_shape(op, scale_name, scale, {a.shape()[2]});
      s.scale_head = scale.strides()[0];
      return s;
    }
    check_shape(op, scale_name, scale, {a.shape()[0], a.shape()[1], a.shape()[2]});
    overlap(scale_name, scale);
    s.scale_page = scale.strides()[0];
    s.scale_slot = scale.strides()[1];
    s.scale_head = scale.strides()[2];
    return s;
  }
};

}  // namespace

CacheLayout cache_layout(const char* op, const KvCache& cache, const char* first, const Array& x, bool written) {
  if (!cache.k.defined() || !cache.v.defined()) throw ArgumentError(std::string(op) + ": the cache has no arrays");
  check_ndim(op, "cache.k", cache.k, 4);
  check_shape(op, "cache.v", cache.v, cache.k.shape());
  check_dtype(op, "cache.v", cache.v, cache.k.dtype());
  CacheLayout c{};
  c.kind = cache_kind(op, cache.k.dtype());
  const Check check{op, first, x, written, c.kind};
  c.k = check.strides("cache.k", "cache.k_scale", cache.k, cache.k_scale);
  c.v = check.strides("cache.v", "cache.v_scale", cache.v, cache.v_scale);
  c.pages = cache.k.shape()[0];
  c.page_size = cache.k.shape()[1];
  c.paged = cache.block_tables.defined() ? 1 : 0;
  if (c.paged == 0) {
    c.sequences = c.pages;
    c.max_pages = 1;
    return c;
  }
  const Array& tables = cache.block_tables;
  check.device("cache.block_tables", tables);
  check_dtype(op, "cache.block_tables", tables, DType::int32);
  check_ndim(op, "cache.block_tables", tables, 2);
  c.sequences = tables.shape()[0];
  c.max_pages = tables.shape()[1];
  c.table_row = tables.strides()[0];
  c.table_step = tables.strides()[1];
  return c;
}

void check_cache_apart(const char* op, const KvCache& cache) {
  const bool scaled = cache.k.dtype() == DType::int8;
  const Array *k = &cache.k, *v = &cache.v, *k_scale = &cache.k_scale, *v_scale = &cache.v_scale;
  if (!lie_apart(*k, *v)) throw ArgumentError(std::string(op) + ": cache.k and cache.v share memory");
  if (scaled && !lie_apart(*k_scale, *v_scale))
    throw ArgumentError(std::string(op) + ": cache.k_scale and cache.v_scale share memory");
}

void check_store(const char* op, const Array& tokens, const Array& cache, const Array& slots, bool sequential) {
  check_ndim(op, "new", tokens, 3);
  check_ndim(op, "cache", cache, 4);
  const int64_t count = tokens.shape()[0];
  if (cache.shape()[2] != tokens.shape()[1] || cache.shape()[3] != tokens.shape()[2])
    throw ShapeError(op, "new", "have the heads and dims of the cache", tokens.shape().str());
  result(op, &cache, cache.shape(), tokens.dtype(), tokens.device());
  if (is_packed(tokens.dtype()) || itemsize(tokens.dtype()) > 8)
    unsupported_dtype(op, "new", tokens.dtype(), "have a dtype of 1 to 8 whole bytes");
  check_same_device(op, tokens, slots);
  check_dtype(op, "slots", slots, DType::int32);
  check_shape(op, "slots", slots, {sequential ? 1 : count});
}

void store_tokens(const char* op, const Array& tokens, const Array& cache, const Array& slots, bool sequential) {
  check_store(op, tokens, cache, slots, sequential);
  if (tokens.size() == 0) return;
  Temporaries temporaries(op);
  const Array from = may_share_memory(cache, tokens) ? copy(tokens, temporaries) : tokens;
  StoreParams p{};
  p.tokens = tokens.shape()[0];
  p.heads = tokens.shape()[1];
  p.dim = tokens.shape()[2];
  p.pages = cache.shape()[0];
  p.page_size = cache.shape()[1];
  p.page = cache.strides()[0];
  p.slot = cache.strides()[1];
  p.head = cache.strides()[2];
  p.step = cache.strides()[3];
  p.from_token = from.strides()[0];
  p.from_head = from.strides()[1];
  p.from_step = from.strides()[2];
  p.slot_step = slots.strides()[0];
  p.sequential = sequential ? 1 : 0;
  p.fault_op = runtime::fault_code(op);
  switch (cache.device().kind) {
    case DeviceKind::cpu: cpu::store_tokens(op, p, cache, from, slots); break;
    case DeviceKind::cuda: cuda::store_tokens(p, cache, from, slots); break;
  }
}

}  // namespace gpukit
