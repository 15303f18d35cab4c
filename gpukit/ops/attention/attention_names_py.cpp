#include "gpukit/base/error.h"
#include "gpukit/ops/attention/attention_names.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/rope/positions.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/runtime/device.h"

namespace gpukit {

namespace {

using namespace python;

struct Inputs {
  const Array &q, &k, &v;
};
Inputs to_inputs(const char* op, nb::handle q, nb::handle k, nb::handle v) {
  return {to_array(op, "Q", q), to_array(op, "K", k), to_array(op, "V", v)};
}

void bind_causal(nb::module_& m) {
  m.def(
      "sdpa_causal",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, double scale, ArrayArg out) {
        constexpr const char* kOp = "sdpa_causal";
        const Inputs x = to_inputs(kOp, q, k, v);
        return with_out(kOp, out, [&](const Array* o) { return sdpa(kOp, x.q, x.k, x.v, {.scale = scale}, o); });
      },
      "Q"_a, "K"_a, "V"_a, "scale"_a = 0.0, nb::kw_only(), "out"_a = nb::none(),
      "Causal attention by heads: Q [heads, queries, dim], K and V [kv_heads, keys, dim]; query i sees keys up to "
      "(keys - queries) + i. A scale not above 0 is 1 / sqrt(dim).");
  m.def(
      "sdpa_causal_fixed_cache",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, const ArrayObject& out, IntArg context_len,
         double scale) {
        constexpr const char* kOp = "sdpa_causal_fixed_cache";
        const Inputs x = to_inputs(kOp, q, k, v);
        const Array& o = to_array(kOp, "out", out);
        SdpaOptions options{.scale = scale};
        options.keys = to_int(kOp, "context_len", context_len);
        in_scope([&] { return sdpa(kOp, x.q, x.k, x.v, options, &o), 0; });
      },
      "Q"_a, "K"_a, "V"_a, "out"_a, "context_len"_a, "scale"_a = 0.0,
      "sdpa_causal into out over the first context_len keys of K and V [kv_heads, max, dim].");
  m.def(
      "sdpa_causal_fixed_cache_ptr",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, const ArrayObject& out,
         const ArrayObject& context_len, IntArg max_kv_len, double scale) {
        constexpr const char* kOp = "sdpa_causal_fixed_cache_ptr";
        const Inputs x = to_inputs(kOp, q, k, v);
        const Array& o = to_array(kOp, "out", out);
        SdpaOptions options{.scale = scale};
        options.keys = to_int(kOp, "max_kv_len", max_kv_len);
        options.context_len = to_array(kOp, "context_len_buf", context_len);
        in_scope([&] { return sdpa(kOp, x.q, x.k, x.v, options, &o), 0; });
      },
      "Q"_a, "K"_a, "V"_a, "out"_a, "context_len_buf"_a, "max_kv_len"_a, "scale"_a = 0.0,
      "sdpa_causal_fixed_cache with the length in an int32 [1] array: graphs replay with another one.");
  m.def(
      "cross_attention",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, double scale, ArrayArg out) {
        constexpr const char* kOp = "cross_attention";
        const Inputs x = to_inputs(kOp, q, k, v);
        return with_out(kOp, out,
                        [&](const Array* o) { return sdpa(kOp, x.q, x.k, x.v, {.scale = scale, .causal = false}, o); });
      },
      "Q"_a, "K"_a, "V"_a, "scale"_a = 0.0, nb::kw_only(), "out"_a = nb::none(),
      "Attention by heads, every query to every key.");
  m.def(
      "sdpa_irope",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, const ArrayObject& positions,
         double attn_scale, double floor_scale, IntArg causal_offset, ArrayArg out) {
        constexpr const char* kOp = "sdpa_irope";
        const Inputs x = to_inputs(kOp, q, k, v);
        const Array& at = to_array(kOp, "positions", positions);
        SdpaOptions options;
        options.first_position = to_int(kOp, "causal_offset", causal_offset);
        return with_out(kOp, out, [&](const Array* o) {
          check_ndim(kOp, "Q", x.q, 3);
          Temporaries temporaries(kOp);
          const Array scaled = temporaries.empty_like(x.q), view = scaled.permute({1, 0, 2});
          irope_scale(kOp, x.q.permute({1, 0, 2}), at, attn_scale, floor_scale, &view);
          return sdpa(kOp, scaled, x.k, x.v, options, o);
        });
      },
      "Q"_a, "K"_a, "V"_a, "positions"_a, "attn_scale"_a = 0.1, "floor_scale"_a = 8192.0, "causal_offset"_a = 0,
      nb::kw_only(), "out"_a = nb::none(),
      "sdpa_causal with queries scaled as irope_scale_q scales them; query i sees keys up to i + causal_offset.");
}

void bind_0_2_names(nb::module_&& compat) {
  compat.def(
      "sdpa_causal_fp8",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, const ArrayObject& out, double scale) {
        constexpr const char* kOp = "sdpa_causal_fp8";
        const Inputs x = to_inputs(kOp, q, k, v);
        const Array& o = to_array(kOp, "out", out);
        in_scope([&] { return sdpa(kOp, x.q, x.k, x.v, {.scale = scale}, &o), 0; });
      },
      "Q"_a, "K"_a, "V"_a, "out"_a, "scale"_a = 0.0, "sdpa_causal into out: products are never rounded to float8.");
  compat.def(
      "fa3_fp8_available", [] { return false; }, "False: no attention rounds its products to float8.");
  compat.def(
      "get_sm_version",
      [] {
        const Device device = to_device(nb::none());
        return in_scope([&] {
          const driver::DeviceProperties& p = runtime::properties(device);
          return 10 * p.sm_major + p.sm_minor;
        });
      },
      "The default device's compute capability as one number, 90 for 9.0; 0 on the CPU.");
  compat.def(
      "paged_attention_v1",
      [](const ArrayObject& q, const ArrayObject& k_cache, const ArrayObject& v_cache, const ArrayObject& block_tables,
         const ArrayObject& context_lens, double scale) {
        constexpr const char* kOp = "paged_attention_v1";
        const Array& a = to_array(kOp, "Q", q);
        const Array& k = to_array(kOp, "K_cache", k_cache);
        const Array& v = to_array(kOp, "V_cache", v_cache);
        const Array& tables = to_array(kOp, "block_tables", block_tables);
        const Array& lengths = to_array(kOp, "context_lens", context_lens);
        return wrap(in_scope([&] { return paged_attention(kOp, a, k, v, tables, lengths, scale); }));
      },
      "Q"_a, "K_cache"_a, "V_cache"_a, "block_tables"_a, "context_lens"_a, "scale"_a = 0.0,
      "Attention of one token per sequence over caches [blocks, kv_heads, block_size, dim].");
}

}  // namespace

void bind_attention_names(nb::module_& m) {
  bind_causal(m);
  bind_0_2_names(compat_module(m));
}

}  // namespace gpukit
