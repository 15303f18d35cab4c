#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "gpukit/base/error.h"
#include "gpukit/ops/attention/attention.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

Array optional(const char* op, const char* argument, nb::handle value) {
  const Array* a = to_optional_array(op, argument, value);
  return a == nullptr ? Array() : *a;
}

ScoreOptions to_score(const char* op, std::optional<double> scale, nb::handle window, std::optional<double> softcap,
                      nb::handle alibi_slopes, nb::handle chunk = nb::none()) {
  ScoreOptions s;
  s.scale = scale;
  if (const auto given = to_optional_int(op, "window", window)) {
    if (*given < 1) throw ArgumentError(op, "window", "be at least 1, or None", std::to_string(*given));
    s.window = *given;
  }
  if (const auto given = to_optional_int(op, "chunk", chunk)) {
    if (*given < 1) throw ArgumentError(op, "chunk", "be at least 1, or None", std::to_string(*given));
    s.chunk = *given;
  }
  s.softcap = softcap.value_or(0.0);
  s.alibi_slopes = optional(op, "alibi_slopes", alibi_slopes);
  return s;
}

AttentionOptions to_options(const char* op, std::optional<double> scale, bool causal, nb::handle window,
                            std::optional<double> softcap, nb::handle alibi_slopes, nb::handle mask,
                            nb::handle q_lengths, nb::handle k_lengths, nb::handle chunk, nb::handle q_scale,
                            nb::handle k_scale, nb::handle v_scale) {
  return {.score = to_score(op, scale, window, softcap, alibi_slopes, chunk),
          .causal = causal,
          .mask = optional(op, "mask", mask),
          .q_lengths = optional(op, "q_lengths", q_lengths),
          .k_lengths = optional(op, "k_lengths", k_lengths),
          .q_scale = optional(op, "q_scale", q_scale),
          .k_scale = optional(op, "k_scale", k_scale),
          .v_scale = optional(op, "v_scale", v_scale)};
}

KvCache to_cache(const char* op, nb::handle k, nb::handle v, nb::handle k_scale, nb::handle v_scale,
                 nb::handle block_tables) {
  return {to_array(op, "k_cache", k), to_array(op, "v_cache", v), optional(op, "k_scale", k_scale),
          optional(op, "v_scale", v_scale), optional(op, "block_tables", block_tables)};
}

}  // namespace

void bind_attention(nb::module_& m) {
  m.def(
      "attention",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, std::optional<double> scale, bool causal,
         IntArg window, std::optional<double> softcap, ArrayArg alibi_slopes, ArrayArg mask, ArrayArg q_lengths,
         ArrayArg k_lengths, IntArg chunk, ArrayArg q_scale, ArrayArg k_scale, ArrayArg v_scale, ArrayArg out,
         bool return_lse) -> AnyObject {
        constexpr const char* kOp = "attention";
        const Array& a = to_array(kOp, "q", q);
        const Array& b = to_array(kOp, "k", k);
        const Array& c = to_array(kOp, "v", v);
        const AttentionOptions options = to_options(kOp, scale, causal, window, softcap, alibi_slopes, mask, q_lengths,
                                                    k_lengths, chunk, q_scale, k_scale, v_scale);
        if (!return_lse)
          return with_out(kOp, out, [&](const Array* target) { return attention(a, b, c, options, target); });
        Array lse = in_scope([&] {
          check_ndim(kOp, "q", a, 4);
          return Array::empty({a.shape()[0], a.shape()[2], a.shape()[1]}, DType::float32, a.device());
        });
        ArrayObject result =
            with_out(kOp, out, [&](const Array* target) { return attention(a, b, c, options, target, &lse); });
        return nb::make_tuple(std::move(result), wrap(std::move(lse)));
      },
      "q"_a, "k"_a, "v"_a, nb::kw_only(), "scale"_a = nb::none(), "causal"_a = false, "window"_a = nb::none(),
      "softcap"_a = nb::none(), "alibi_slopes"_a = nb::none(), "mask"_a = nb::none(), "q_lengths"_a = nb::none(),
      "k_lengths"_a = nb::none(), "chunk"_a = nb::none(), "q_scale"_a = nb::none(), "k_scale"_a = nb::none(),
      "v_scale"_a = nb::none(), "out"_a = nb::none(), "return_lse"_a = false,
      "softmax(scale q k^T) v for q [batch, queries, heads, dim] and k, v [batch, keys, kv_heads, dim] of any strides. "
      "With return_lse also the logarithm of each sum of exponentials, float32 [batch, heads, queries]. "
      "window: keys less than this far from the query; chunk: none before the multiple of this that it is past. "
      "q_scale, k_scale, v_scale: float32 [kv_heads], what float8_e4m3 k and v, or all three, are multiplied by.");
  m.def(
      "attention_over_cache",
      [](const ArrayObject& q, const ArrayObject& k_cache, const ArrayObject& v_cache, const ArrayObject& sequence_ids,
         const ArrayObject& positions, ArrayArg block_tables, ArrayArg k_scale, ArrayArg v_scale,
         std::optional<double> scale, IntArg window, std::optional<double> softcap, ArrayArg alibi_slopes, IntArg chunk,
         ArrayArg out) {
        constexpr const char* kOp = "attention_over_cache";
        const Array& a = to_array(kOp, "q", q);
        const KvCache cache = to_cache(kOp, k_cache, v_cache, k_scale, v_scale, block_tables);
        const Array& ids = to_array(kOp, "sequence_ids", sequence_ids);
        const Array& at = to_array(kOp, "positions", positions);
        const ScoreOptions options = to_score(kOp, scale, window, softcap, alibi_slopes, chunk);
        return with_out(kOp, out,
                        [&](const Array* target) { return attention_over_cache(a, cache, ids, at, options, target); });
      },
      "q"_a, "k_cache"_a, "v_cache"_a, "sequence_ids"_a, "positions"_a, nb::kw_only(), "block_tables"_a = nb::none(),
      "k_scale"_a = nb::none(), "v_scale"_a = nb::none(), "scale"_a = nb::none(), "window"_a = nb::none(),
      "softcap"_a = nb::none(), "alibi_slopes"_a = nb::none(), "chunk"_a = nb::none(), "out"_a = nb::none(),
      "Attention of q [tokens, heads, dim] over keys 0 .. positions[i] that a cache holds of sequence "
      "sequence_ids[i].");
  m.def(
      "explain_attention",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& v, std::optional<double> scale, bool causal,
         IntArg window, std::optional<double> softcap, ArrayArg alibi_slopes, ArrayArg mask, ArrayArg q_lengths,
         ArrayArg k_lengths, IntArg chunk, ArrayArg q_scale, ArrayArg k_scale, ArrayArg v_scale) {
        constexpr const char* kOp = "explain_attention";
        const Array& a = to_array(kOp, "q", q);
        const Array& b = to_array(kOp, "k", k);
        const Array& c = to_array(kOp, "v", v);
        const AttentionOptions options = to_options(kOp, scale, causal, window, softcap, alibi_slopes, mask, q_lengths,
                                                    k_lengths, chunk, q_scale, k_scale, v_scale);
        return in_scope([&] { return explain_attention(a, b, c, options); });
      },
      "q"_a, "k"_a, "v"_a, nb::kw_only(), "scale"_a = nb::none(), "causal"_a = false, "window"_a = nb::none(),
      "softcap"_a = nb::none(), "alibi_slopes"_a = nb::none(), "mask"_a = nb::none(), "q_lengths"_a = nb::none(),
      "k_lengths"_a = nb::none(), "chunk"_a = nb::none(), "q_scale"_a = nb::none(), "k_scale"_a = nb::none(),
      "v_scale"_a = nb::none(), "What attention does for such arrays: the path and its kernel, in words.");
  m.def(
      "explain_attention_over_cache",
      [](const ArrayObject& q, const ArrayObject& k_cache, const ArrayObject& v_cache, const ArrayObject& sequence_ids,
         const ArrayObject& positions, ArrayArg block_tables, ArrayArg k_scale, ArrayArg v_scale,
         std::optional<double> scale, IntArg window, std::optional<double> softcap, ArrayArg alibi_slopes,
         IntArg chunk) {
        constexpr const char* kOp = "explain_attention_over_cache";
        const Array& a = to_array(kOp, "q", q);
        const KvCache cache = to_cache(kOp, k_cache, v_cache, k_scale, v_scale, block_tables);
        const Array& ids = to_array(kOp, "sequence_ids", sequence_ids);
        const Array& at = to_array(kOp, "positions", positions);
        const ScoreOptions options = to_score(kOp, scale, window, softcap, alibi_slopes, chunk);
        return in_scope([&] { return explain_attention_over_cache(a, cache, ids, at, options); });
      },
      "q"_a, "k_cache"_a, "v_cache"_a, "sequence_ids"_a, "positions"_a, nb::kw_only(), "block_tables"_a = nb::none(),
      "k_scale"_a = nb::none(), "v_scale"_a = nb::none(), "scale"_a = nb::none(), "window"_a = nb::none(),
      "softcap"_a = nb::none(), "alibi_slopes"_a = nb::none(), "chunk"_a = nb::none(),
      "What attention_over_cache does for such arrays: the path and its kernel, in words.");
}

}  // namespace gpukit
