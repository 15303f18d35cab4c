#include "gpukit/ops/rope/rope.h"

#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/rope/rope_impl.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

RopeScaling::Kind to_kind(const std::string& name) {
  using Kind = RopeScaling::Kind;
  if (name == "none" || name == "default") return Kind::none;
  if (name == "linear") return Kind::linear;
  if (name == "ntk") return Kind::ntk;
  if (name == "yarn") return Kind::yarn;
  if (name == "llama3") return Kind::llama3;
  throw ArgumentError("rope_tables: scaling must be none, linear, ntk, yarn or llama3, got " + name);
}

Array optional(const char* op, const char* argument, nb::handle value) {
  const Array* a = to_optional_array(op, argument, value);
  return a == nullptr ? Array() : *a;
}

void bind_rotation(nb::module_& m) {
  m.def(
      "rope_tables",
      [](IntArg positions, IntArg rotary_dim, double base, StringArg scaling, double factor, IntArg original_length,
         double low_freq_factor, double high_freq_factor, double beta_fast, double beta_slow, double attention_factor,
         DeviceArg device) {
        constexpr const char* kOp = "rope_tables";
        RopeScaling s;
        s.kind = to_kind(to_text(kOp, "scaling", scaling));
        s.factor = factor;
        s.original_length = to_int(kOp, "original_length", original_length);
        s.low_freq_factor = low_freq_factor;
        s.high_freq_factor = high_freq_factor;
        s.beta_fast = beta_fast;
        s.beta_slow = beta_slow;
        s.attention_factor = attention_factor;
        const int64_t rows = to_int(kOp, "positions", positions), dim = to_int(kOp, "rotary_dim", rotary_dim);
        const Device target = to_device(device);
        auto [cos, sin] = in_scope([&] { return rope_tables(rows, dim, base, s, target); });
        return nb::typed<nb::tuple, Array, Array>(nb::make_tuple(wrap(std::move(cos)), wrap(std::move(sin))));
      },
      "positions"_a, "rotary_dim"_a, "base"_a = 10000.0, nb::kw_only(), "scaling"_a = "none", "factor"_a = 1.0,
      "original_length"_a = 0, "low_freq_factor"_a = 1.0, "high_freq_factor"_a = 4.0, "beta_fast"_a = 32.0,
      "beta_slow"_a = 1.0, "attention_factor"_a = 0.0, "device"_a = nb::none(),
      "(cos, sin), float32 [positions, rotary_dim / 2]. scaling: none, linear, ntk, yarn or llama3.");
  m.def(
      "rope",
      [](const ArrayObject& x, const ArrayObject& cos, const ArrayObject& sin, ArrayArg positions, IntArg rotary_dim,
         bool interleaved) {
        constexpr const char* kOp = "rope";
        const Array& a = to_array(kOp, "x", x);
        const Array& c = to_array(kOp, "cos", cos);
        const Array& s = to_array(kOp, "sin", sin);
        const Array at = optional(kOp, "positions", positions);
        const RopeOptions options{to_int(kOp, "rotary_dim", rotary_dim), interleaved};
        in_scope([&] { return rope(a, c, s, at, options), 0; });
      },
      "x"_a, "cos"_a, "sin"_a, "positions"_a = nb::none(), nb::kw_only(), "rotary_dim"_a = 0, "interleaved"_a = false,
      "Turns x [tokens, heads, dim] in place by the tables' rows `positions` (int32 [tokens]; None: 0, 1, ...).");
  m.def(
      "rope_inplace",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& cos, const ArrayObject& sin) {
        constexpr const char* kOp = "rope_inplace";
        const Array& a = to_array(kOp, "q", q);
        const Array& b = to_array(kOp, "k", k);
        const Array& c = to_array(kOp, "cos", cos);
        const Array& s = to_array(kOp, "sin", sin);
        in_scope([&] { return rope_pair(kOp, a, b, c, s, {}, {}), 0; });
      },
      "q"_a, "k"_a, "cos"_a, "sin"_a, "Turns q [S, H, D] and k [S, Hkv, D] in place; tables [S, D], half-split.");
  m.def(
      "rope_inplace_f32table",
      [](const ArrayObject& q, const ArrayObject& k, const ArrayObject& cos, const ArrayObject& sin) {
        constexpr const char* kOp = "rope_inplace_f32table";
        const Array& a = to_array(kOp, "q", q);
        const Array& b = to_array(kOp, "k", k);
        const Array& c = to_array(kOp, "cos", cos);
        const Array& s = to_array(kOp, "sin", sin);
        in_scope([&] {
          check_dtype(kOp, "cos", c, DType::float32);
          return rope_pair(kOp, a, b, c, s, {}, {}), 0;
        });
      },
      "q"_a, "k"_a, "cos"_a, "sin"_a, "rope_inplace with float32 tables.");
}

}  // namespace

void bind_rope(nb::module_& m) {
  bind_rotation(m);
  m.def(
      "qkv_rope_append",
      [](const ArrayObject& qkv, const ArrayObject& q_out, const ArrayObject& k_cache, const ArrayObject& v_cache,
         const ArrayObject& sequence_ids, const ArrayObject& positions, ArrayArg block_tables, ArrayArg k_scale,
         ArrayArg v_scale, ArrayArg bias, ArrayArg q_norm, ArrayArg k_norm, double norm_eps, ArrayArg cos, ArrayArg sin,
         IntArg rotary_dim, bool interleaved) {
        constexpr const char* kOp = "qkv_rope_append";
        const Array& x = to_array(kOp, "qkv", qkv);
        const Array& q = to_array(kOp, "q_out", q_out);
        const KvCache cache{to_array(kOp, "k_cache", k_cache), to_array(kOp, "v_cache", v_cache),
                            optional(kOp, "k_scale", k_scale), optional(kOp, "v_scale", v_scale),
                            optional(kOp, "block_tables", block_tables)};
        const Array& ids = to_array(kOp, "sequence_ids", sequence_ids);
        const Array& at = to_array(kOp, "positions", positions);
        const QkvOptions options{optional(kOp, "bias", bias),
                                 optional(kOp, "q_norm", q_norm),
                                 optional(kOp, "k_norm", k_norm),
                                 norm_eps,
                                 optional(kOp, "cos", cos),
                                 optional(kOp, "sin", sin),
                                 {to_int(kOp, "rotary_dim", rotary_dim), interleaved}};
        in_scope([&] { return qkv_rope_append(x, q, cache, ids, at, options), 0; });
      },
      "qkv"_a, "q_out"_a, "k_cache"_a, "v_cache"_a, "sequence_ids"_a, "positions"_a, nb::kw_only(),
      "block_tables"_a = nb::none(), "k_scale"_a = nb::none(), "v_scale"_a = nb::none(), "bias"_a = nb::none(),
      "q_norm"_a = nb::none(), "k_norm"_a = nb::none(), "norm_eps"_a = 1e-6, "cos"_a = nb::none(), "sin"_a = nb::none(),
      "rotary_dim"_a = 0, "interleaved"_a = false,
      "Splits qkv, adds the bias, normalises and turns q and k, writes q to q_out and k, v to the cache: one kernel.");
  m.def(
      "split_qkv_batch",
      [](const ArrayObject& qkv, const ArrayObject& q_out, const ArrayObject& k_out, const ArrayObject& v_out,
         IntArg q_dim, IntArg k_dim, IntArg v_dim) {
        constexpr const char* kOp = "split_qkv_batch";
        const Array& x = to_array(kOp, "qkv", qkv);
        const Array* parts[] = {&to_array(kOp, "q_out", q_out), &to_array(kOp, "k_out", k_out),
                                &to_array(kOp, "v_out", v_out)};
        const int64_t dims[] = {to_int(kOp, "q_dim", q_dim), to_int(kOp, "k_dim", k_dim), to_int(kOp, "v_dim", v_dim)};
        in_scope([&] {
          check_shape(kOp, "qkv", x, {x.shape(0), dims[0] + dims[1] + dims[2]});
          for (int i = 0; i < 3; ++i)
            if (parts[i]->size() != x.shape(0) * dims[i])
              throw ShapeError(kOp,
                               i == 0   ? "q_out"
                               : i == 1 ? "k_out"
                                        : "v_out",
                               "have " + std::to_string(dims[i]) + " elements a row", parts[i]->shape().str());
          return split_qkv(x, *parts[0], *parts[1], *parts[2]), 0;
        });
      },
      "qkv"_a, "q_out"_a, "k_out"_a, "v_out"_a, "q_dim"_a, "k_dim"_a, "v_dim"_a,
      "The columns of qkv [M, q + k + v] as q_out, k_out, v_out [M, heads, dim].");
}

}  // namespace gpukit
