#include "gpukit/ops/rope/positions.h"

#include <array>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/rope/rope_impl.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;
using Tables = nb::typed<nb::tuple, Array, Array>;

/// The tables of 0.2: both halves of a row are the same.
Tables whole_tables(const char* op, IntArg max_seq_len, IntArg head_dim, double base, const RopeScaling& scaling) {
  const int64_t positions = to_int(op, "max_seq_len", max_seq_len), dim = to_int(op, "head_dim", head_dim);
  const Device device = to_device(nb::none());
  auto [cos, sin] = in_scope([&] {
    const auto [c, s] = rope_tables(op, positions, dim, base, scaling, device);
    return std::pair(concat(std::array{c, c}, 1), concat(std::array{s, s}, 1));
  });
  return nb::make_tuple(wrap(std::move(cos)), wrap(std::move(sin)));
}

void bind_tables(nb::module_& m) {
  m.def(
      "rope_init_linear",
      [](IntArg max_seq_len, IntArg head_dim, double base, double scale) {
        return whole_tables("rope_init_linear", max_seq_len, head_dim, base,
                            {.kind = RopeScaling::Kind::linear, .factor = scale});
      },
      "max_seq_len"_a, "head_dim"_a, "base"_a = 10000.0, "scale"_a = 1.0,
      "(cos, sin) of rope_tables with linear scaling, float32 [max_seq_len, head_dim] for rope_inplace.");
  m.def(
      "rope_init_ntk_aware",
      [](IntArg max_seq_len, IntArg head_dim, double base, double scale) {
        return whole_tables("rope_init_ntk_aware", max_seq_len, head_dim, base,
                            {.kind = RopeScaling::Kind::ntk, .factor = scale});
      },
      "max_seq_len"_a, "head_dim"_a, "base"_a = 10000.0, "scale"_a = 1.0,
      "(cos, sin) of rope_tables with NTK scaling, float32 [max_seq_len, head_dim] for rope_inplace.");
  m.def(
      "rope_init_yarn",
      [](IntArg max_seq_len, IntArg head_dim, double base, double scale, IntArg original_max_len, double beta_fast,
         double beta_slow, double mscale) {
        RopeScaling s;
        s.kind = RopeScaling::Kind::yarn;
        s.factor = scale;
        s.original_length = to_int("rope_init_yarn", "original_max_len", original_max_len);
        s.beta_fast = beta_fast;
        s.beta_slow = beta_slow;
        s.attention_factor = scale > 1 ? mscale * std::log(scale) + 1 : 1;
        return whole_tables("rope_init_yarn", max_seq_len, head_dim, base, s);
      },
      "max_seq_len"_a, "head_dim"_a, "base"_a = 10000.0, "scale"_a = 1.0, "original_max_len"_a = 4096,
      "beta_fast"_a = 32.0, "beta_slow"_a = 1.0, "mscale"_a = 0.1,
      "(cos, sin) of rope_tables with YaRN scaling, float32 [max_seq_len, head_dim] for rope_inplace; times "
      "mscale ln(scale) + 1.");
}

void bind_alibi(nb::module_& m) {
  m.def(
      "alibi_init_slopes",
      [](IntArg num_heads) {
        const int64_t heads = to_int("alibi_init_slopes", "num_heads", num_heads);
        const Device device = to_device(nb::none());
        return wrap(in_scope([&] { return alibi_slopes(heads, device); }));
      },
      "num_heads"_a, "float32 [num_heads]: 2^(-8 (h + 1) / num_heads).");
  m.def(
      "alibi_compute_bias",
      [](IntArg seq_len, IntArg num_heads, const ArrayObject& slopes, bool causal) {
        constexpr const char* kOp = "alibi_compute_bias";
        const int64_t length = to_int(kOp, "seq_len", seq_len), heads = to_int(kOp, "num_heads", num_heads);
        const Array& s = to_array(kOp, "slopes", slopes);
        return wrap(in_scope([&] {
          check_shape(kOp, "slopes", s, {heads});
          return alibi_bias(length, s, causal);
        }));
      },
      "seq_len"_a, "num_heads"_a, "slopes"_a, "causal"_a = true,
      "float32 [num_heads, seq_len, seq_len]: -slope (i - j), and -1e9 where j > i when causal.");
  m.def(
      "alibi_add_bias",
      [](const ArrayObject& scores, const ArrayObject& slopes, IntArg start_pos) {
        constexpr const char* kOp = "alibi_add_bias";
        const Array& x = to_array(kOp, "scores", scores);
        const Array& s = to_array(kOp, "slopes", slopes);
        const int64_t start = to_int(kOp, "start_pos", start_pos);
        in_scope([&] { return alibi_add(x, s, start), 0; });
      },
      "scores"_a, "slopes"_a, "start_pos"_a = 0,
      "scores [batch, heads, queries, keys] -= slope (start_pos + i - j), in place.");
}

}  // namespace

void bind_positions(nb::module_& m) {
  bind_tables(m);
  bind_alibi(m);
  m.def(
      "pope_init_encoding",
      [](IntArg max_seq_len, IntArg head_dim, double base) {
        constexpr const char* kOp = "pope_init_encoding";
        const int64_t positions = to_int(kOp, "max_seq_len", max_seq_len), dim = to_int(kOp, "head_dim", head_dim);
        const Device device = to_device(nb::none());
        return wrap(in_scope([&] { return pope_encoding(positions, dim, base, device); }));
      },
      "max_seq_len"_a, "head_dim"_a, "base"_a = 10000.0,
      "float32 [max_seq_len, head_dim]: sines in even columns, cosines in odd ones.");
  m.def(
      "pope_inplace",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& encoding, IntArg start_pos) {
        constexpr const char* kOp = "pope_inplace";
        const Array& a = to_array(kOp, "q", q);
        const Array& b = to_array(kOp, "k", k);
        const Array& e = to_array(kOp, "encoding", encoding);
        const int64_t start = to_int(kOp, "start_pos", start_pos);
        in_scope([&] { return pope(kOp, a, b, e, start), 0; });
      },
      "q"_a, "k"_a, "encoding"_a, "start_pos"_a = 0,
      "Adds encoding[start_pos + token] to every head of q and k [tokens, heads, dim], in place.");
  m.def(
      "irope_scale_q",
      [](const ArrayObject& q, const ArrayObject& positions, double attn_scale, double floor_scale, ArrayArg out) {
        constexpr const char* kOp = "irope_scale_q";
        const Array& a = to_array(kOp, "Q", q);
        const Array& at = to_array(kOp, "positions", positions);
        return with_out(kOp, out,
                        [&](const Array* target) { return irope_scale(kOp, a, at, attn_scale, floor_scale, target); });
      },
      "Q"_a, "positions"_a, "attn_scale"_a = 0.1, "floor_scale"_a = 8192.0, nb::kw_only(), "out"_a = nb::none(),
      "Q [tokens, heads, dim] times 1 + attn_scale ln(1 + floor((position + 1) / floor_scale)).");
}

}  // namespace gpukit
