#include "gpukit/ops/kv_cache/kv_cache.h"

#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"

namespace gpukit {

namespace {

using namespace python;

/// `count` tokens of a cache from `start`.
Array tokens_of(const char* op, const Array& cache, int axis, int64_t start, int64_t count) {
  if (start < 0 || start > cache.shape(axis) - count)
    throw OutOfRangeError(std::string(op) + ": positions " + std::to_string(start) + " to " +
                          std::to_string(start > INT64_MAX - count ? INT64_MAX : start + count) +
                          " are out of range for a cache of " + std::to_string(cache.shape(axis)));
  return cache.narrow(axis, start, count);
}

void check_new(const char* op, const Array& tokens, const Array& cache, std::optional<int64_t> count) {
  check_ndim(op, "new_kv", tokens, 3);
  check_ndim(op, "cache", cache, 3);
  check_dtype(op, "new_kv", tokens, cache.dtype());
  check_same_device(op, tokens, cache);
  if (count && tokens.shape()[0] != *count)
    throw ShapeError(op, "new_kv", "have shape [1, kv_heads, dim]", tokens.shape().str());
}

void write_tokens(const char* op, const Array& tokens, const Array& cache, int64_t start,
                  std::optional<int64_t> count) {
  check_new(op, tokens, cache, count);
  check_shape(op, "new_kv", tokens, {tokens.shape()[0], cache.shape()[1], cache.shape()[2]});
  copy_into(tokens_of(op, cache, 0, start, tokens.shape()[0]), tokens);
}

/// new [n, kv_heads, dim] once for each of the query heads that read it: [n, heads, dim].
Array spread(const char* op, const Array& tokens, const Array& cache, int64_t heads, std::optional<int64_t> count) {
  check_new(op, tokens, cache, count);
  const int64_t n = tokens.shape()[0], kv_heads = tokens.shape()[1], dim = tokens.shape()[2];
  if (kv_heads == 0 || heads % kv_heads != 0)
    throw ShapeError(op, "num_heads", "be a multiple of the " + std::to_string(kv_heads) + " KV heads",
                     std::to_string(heads));
  if (cache.shape()[0] != heads || cache.shape()[2] != dim)
    throw ShapeError(op, "cache", "have " + std::to_string(heads) + " heads of " + std::to_string(dim) + " dims",
                     cache.shape().str());
  return tokens.expand_dims(2).broadcast_to({n, kv_heads, heads / kv_heads, dim});
}

void write_spread(const char* op, const Array& tokens, const Array& cache, int64_t heads, int64_t start,
                  std::optional<int64_t> count) {
  const Array wide = spread(op, tokens, cache, heads, count);
  const Array to = tokens_of(op, cache, 1, start, wide.shape()[0]).permute({1, 0, 2});
  copy_into(to.reshape_view(wide.shape()), wide);
}

void bind_plain(nb::module_& m) {
  m.def(
      "kv_cache_update",
      [](const ArrayObject& new_kv, const ArrayObject& cache, IntArg position) {
        constexpr const char* kOp = "kv_cache_update";
        const Array& x = to_array(kOp, "new_kv", new_kv);
        const Array& c = to_array(kOp, "cache", cache);
        const int64_t at = to_int(kOp, "position", position);
        in_scope([&] { return write_tokens(kOp, x, c, at, 1), 0; });
      },
      "new_kv"_a, "cache"_a, "position"_a, "cache[position] = new_kv[0], of [tokens, kv_heads, dim].");
  m.def(
      "kv_cache_prefill",
      [](const ArrayObject& new_kv, const ArrayObject& cache, IntArg start_pos) {
        constexpr const char* kOp = "kv_cache_prefill";
        const Array& x = to_array(kOp, "new_kv", new_kv);
        const Array& c = to_array(kOp, "cache", cache);
        const int64_t at = to_int(kOp, "start_pos", start_pos);
        in_scope([&] { return write_tokens(kOp, x, c, at, std::nullopt), 0; });
      },
      "new_kv"_a, "cache"_a, "start_pos"_a = 0,
      "cache[start_pos : start_pos + n] = new_kv, of [tokens, kv_heads, dim].");
}

void bind_gqa(nb::module_& m) {
  m.def(
      "kv_cache_update_gqa",
      [](const ArrayObject& new_kv, const ArrayObject& cache, IntArg num_heads, IntArg position) {
        constexpr const char* kOp = "kv_cache_update_gqa";
        const Array& x = to_array(kOp, "new_kv", new_kv);
        const Array& c = to_array(kOp, "cache", cache);
        const int64_t heads = to_int(kOp, "num_heads", num_heads), at = to_int(kOp, "position", position);
        in_scope([&] { return write_spread(kOp, x, c, heads, at, 1), 0; });
      },
      "new_kv"_a, "cache"_a, "num_heads"_a, "position"_a,
      "new_kv [1, kv_heads, dim] into cache [num_heads, tokens, dim]: head h takes KV head h kv_heads / num_heads.");
  m.def(
      "kv_cache_prefill_gqa",
      [](const ArrayObject& new_kv, const ArrayObject& cache, IntArg num_heads, IntArg start_pos) {
        constexpr const char* kOp = "kv_cache_prefill_gqa";
        const Array& x = to_array(kOp, "new_kv", new_kv);
        const Array& c = to_array(kOp, "cache", cache);
        const int64_t heads = to_int(kOp, "num_heads", num_heads), at = to_int(kOp, "start_pos", start_pos);
        in_scope([&] { return write_spread(kOp, x, c, heads, at, std::nullopt), 0; });
      },
      "new_kv"_a, "cache"_a, "num_heads"_a, "start_pos"_a = 0, "kv_cache_update_gqa of n tokens from start_pos on.");
  m.def(
      "kv_cache_update_gqa_ptr",
      [](const ArrayObject& new_kv, const ArrayObject& cache, IntArg num_heads, const ArrayObject& position_buf) {
        constexpr const char* kOp = "kv_cache_update_gqa_ptr";
        const Array& x = to_array(kOp, "new_kv", new_kv);
        const Array& c = to_array(kOp, "cache", cache);
        const Array& at = to_array(kOp, "position_buf", position_buf);
        const int64_t heads = to_int(kOp, "num_heads", num_heads);
        in_scope([&] {
          check_dtype(kOp, "position_buf", at, DType::int32);
          if (at.ndim() != 1 || at.size() < 1)
            throw ShapeError(kOp, "position_buf", "have one element", at.shape().str());
          const int64_t group = spread(kOp, x, c, heads, 1).shape()[2];
          const Array by_tokens = c.permute({1, 0, 2}).expand_dims(0);
          Temporaries temporaries(kOp);
          const Array from = may_share_memory(c, x) ? copy(x, temporaries) : x;
          for (int64_t i = 0; i < group; ++i)
            store_tokens(kOp, from, by_tokens.slice(2, i, heads, group), at.narrow(0, 0, 1), true);
          return 0;
        });
      },
      "new_kv"_a, "cache"_a, "num_heads"_a, "position_buf"_a,
      "kv_cache_update_gqa at a position read from an int32 [1] array on the device.");
}

void bind_paged(nb::module_&& compat) {
  compat.def(
      "allocate_kv_cache",
      [](IntArg num_blocks, IntArg num_kv_heads, IntArg block_size, IntArg head_dim) {
        constexpr const char* kOp = "allocate_kv_cache";
        const Dims shape{to_int(kOp, "num_blocks", num_blocks), to_int(kOp, "num_kv_heads", num_kv_heads),
                         to_int(kOp, "block_size", block_size), to_int(kOp, "head_dim", head_dim)};
        return wrap(in_scope([&] { return zeros(shape, DType::float16); }));
      },
      "num_blocks"_a, "num_kv_heads"_a, "block_size"_a, "head_dim"_a,
      "Zeros of float16 [num_blocks, num_kv_heads, block_size, head_dim]: the keys or the values of a paged cache.");
  struct Name {
    const char *name, *k, *v;
  };
  for (const auto& [name, k_name, v_name] :
       {Name{"copy_to_paged_cache", "K_new", "V_new"}, Name{"reshape_and_cache", "K", "V"}})
    compat.def(
        name,
        [name = name](const ArrayObject& k, const ArrayObject& v, const ArrayObject& k_cache,
                      const ArrayObject& v_cache, const ArrayObject& slot_mapping) {
          const Array& new_k = to_array(name, "K", k);
          const Array& new_v = to_array(name, "V", v);
          const Array& to_k = to_array(name, "K_cache", k_cache);
          const Array& to_v = to_array(name, "V_cache", v_cache);
          const Array& slots = to_array(name, "slot_mapping", slot_mapping);
          in_scope([&] {
            check_ndim(name, "K_cache", to_k, 4);
            check_shape(name, "V_cache", to_v, to_k.shape());
            check_shape(name, "V", new_v, new_k.shape());
            const Array keys = to_k.permute({0, 2, 1, 3}), values = to_v.permute({0, 2, 1, 3});
            check_store(name, new_k, keys, slots, false);
            check_store(name, new_v, values, slots, false);
            if (!lie_apart(keys, values)) throw ArgumentError(std::string(name) + ": K_cache and V_cache share memory");
            Temporaries temporaries(name);
            // V is read after K_cache is written.
            const Array v_rows = may_share_memory(keys, new_v) ? copy(new_v, temporaries) : new_v;
            store_tokens(name, new_k, keys, slots, false);
            store_tokens(name, v_rows, values, slots, false);
            return 0;
          });
        },
        nb::arg(k_name), nb::arg(v_name), "K_cache"_a, "V_cache"_a, "slot_mapping"_a,
        "K and V [n, kv_heads, dim] into caches [blocks, kv_heads, block_size, dim]: token i to slot_mapping[i], which "
        "is block * block_size + place; -1: nowhere.");
}

}  // namespace

void bind_kv_cache(nb::module_& m) {
  bind_plain(m);
  bind_gqa(m);
  bind_paged(compat_module(m));
}

}  // namespace gpukit
