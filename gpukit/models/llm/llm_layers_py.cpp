#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/error.h"
#include "gpukit/models/llm/layer_calls.h"
#include "gpukit/models/llm/layer_objects_py.h"
#include "gpukit/models/llm/position_ids.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/manipulate/manipulate.h"

namespace gpukit::llm {

namespace {

using namespace python;
using MatrixArg = Shown<"pygpukit.GPUArray | pygpukit.Weight | LinearBF16 | None">;
using MlpArg = Shown<"MLP | MoELayer">;
using PastArg = Shown<"tuple[pygpukit.GPUArray, pygpukit.GPUArray] | None">;
using PairOrNone = ShownObject<"tuple[pygpukit.GPUArray, pygpukit.GPUArray] | None">;
using OutAndPast = nb::typed<nb::tuple, Array, PairOrNone>;

Array optional(const char* op, const char* argument, nb::handle value) {
  const Array* array = to_optional_array(op, argument, value);
  return array == nullptr ? Array() : *array;
}

ShownObject<"pygpukit.GPUArray | None"> or_none(const Array& array) {
  return array.defined() ? nb::object(wrap(Array(array))) : nb::object(nb::none());
}

/// A table of rotations as 0.2 had it, both halves of a head: float32 [positions, dim] of NumPy.
ShownObject<"numpy.ndarray | None"> doubled(const Array& table) {
  if (!table.defined()) return nb::none();
  const Array both[] = {table, table};
  return wrap(in_scope([&] { return concat(both, -1); })).attr("to_numpy")();
}

bool is_gated(const MlpLayer& mlp) { return mlp.gate.weight.defined(); }

ShownObject<"LinearBF16 | None"> linear_or_none(const Linear& linear, bool there) {
  return there ? nb::cast(linear) : nb::object(nb::none());
}

/// An array, a Weight or a Linear; None gives an empty one. A bias beside it takes the place of its own.
Linear to_linear(const char* op, const char* argument, nb::handle value, nb::handle bias = nb::none()) {
  Linear linear;
  if (value.is_none()) return linear;
  const Linear* given = nullptr;
  const Weight* weight = nullptr;
  if (nb::try_cast(value, given) && given != nullptr)
    linear = *given;
  else if (nb::try_cast(value, weight) && weight != nullptr)
    linear.weight = *weight;
  else
    linear.weight = Weight(to_array(op, argument, value));
  if (!bias.is_none()) linear.bias = to_array(op, argument, bias);
  return linear;
}

/// Runs `f(layer, cache, start)` over the tokens before x, and gives keys and values of all when asked for.
template <typename F>
OutAndPast with_past(const AttentionLayer& layer, const Array& x, nb::handle position_ids, nb::handle past,
                     bool use_cache, const F& f) {
  Array k, v;
  if (!past.is_none()) {
    const nb::tuple pair = to_items("Attention", "past_kv", past, 2);
    if (pair.size() != 2) throw ArgumentError("Attention", "past_kv", "be a pair of arrays", shown(past));
    k = to_array("Attention", "past_kv", pair[0]);
    v = to_array("Attention", "past_kv", pair[1]);
  }
  const int64_t start = k.defined() ? k.shape(0) : 0;
  std::vector<int64_t> positions;
  if (!position_ids.is_none()) positions = to_ints("Attention", "position_ids", position_ids);
  if (!position_ids.is_none() && static_cast<int64_t>(positions.size()) != x.shape(0))
    throw ShapeError("Attention", "position_ids", "have one for each of " + std::to_string(x.shape(0)) + " tokens",
                     std::to_string(positions.size()));
  KvCache cache;
  Array result = in_scope([&] {
    cache = extended_cache(layer, k, v, x.shape(0), x.dtype(), x.device());
    return f(follow(positions, start) ? layer : at_positions(layer, positions, start), cache, start);
  });
  nb::object kept = nb::none();
  if (use_cache) kept = nb::make_tuple(wrap(cache.k.select(0, 0)), wrap(cache.v.select(0, 0)));
  return OutAndPast(nb::make_tuple(wrap(std::move(result)), kept));
}

void bind_linear_layers(nb::module_& m) {
  nb::class_<Linear>(m, "LinearBF16", "input @ weight.T + bias, of any dtype.")
      .def(
          "__init__",
          [](Linear* self, MatrixArg weight, ArrayArg bias) {
            new (self) Linear(to_linear("Linear", "weight", weight, bias));
            if (!self->weight.defined()) throw ArgumentError("Linear", "weight", "be a matrix", "None");
          },
          "weight"_a.none(), "bias"_a = nb::none())
      .def(
          "__call__",
          [](const Linear& self, const ArrayObject& x, ArrayArg out) {
            const Array& input = to_array("Linear", "x", x);
            return with_out("Linear", out, [&](const Array* target) { return self(input, target); });
          },
          "x"_a, nb::kw_only(), "out"_a = nb::none())
      .def_prop_ro("weight", [](const Linear& self) { return wrap(Array(self.weight.parts().data)); })
      .def_prop_ro(
          "packed", [](const Linear& self) { return self.weight; }, "The Weight.")
      .def_prop_ro("bias", [](const Linear& self) { return or_none(self.bias); })
      .def_prop_ro("out_features", [](const Linear& self) { return self.weight.rows(); })
      .def_prop_ro("in_features", [](const Linear& self) { return self.weight.columns(); });
  nb::class_<Fp8Linear, Linear>(m, "LinearFP8", "The same for float8_e4m3 codes with a scale for each block.")
      .def(
          "__init__",
          [](Fp8Linear* self, const ArrayObject& weight, const ArrayObject& scale_inv, ArrayArg bias,
             IntsArg block_size) {
            const Array& codes = to_array("LinearFP8", "weight_fp8", weight);
            const Array& scale = to_array("LinearFP8", "scale_inv", scale_inv);
            const std::vector<int64_t> block = to_ints("LinearFP8", "block_size", block_size, 2);
            new (self) Fp8Linear();
            self->bias = optional("LinearFP8", "bias", bias);
            self->weight = in_scope([&] { return fp8_weight(codes, scale, block); });
          },
          "weight_fp8"_a, "scale_inv"_a, "bias"_a = nb::none(), "block_size"_a = nb::make_tuple(128, 128));
  nb::class_<Norm>(m, "Norm", "rmsnorm, or layernorm with a bias, over the last axis.")
      .def(
          "__init__",
          [](Norm* self, const ArrayObject& weight, ArrayArg bias, const std::string& norm_type, double eps) {
            const Array& gamma = to_array("Norm", "weight", weight);
            Array beta = optional("Norm", "bias", bias);
            if (norm_type != "rmsnorm" && norm_type != "layernorm")
              throw ArgumentError("Norm", "norm_type", "be rmsnorm or layernorm", norm_type);
            if (norm_type == "rmsnorm")
              beta = Array();
            else if (!beta.defined())
              beta = in_scope([&] { return zeros_like(gamma); });
            new (self) Norm{gamma, beta, eps};
          },
          "weight"_a, "bias"_a = nb::none(), "norm_type"_a = "rmsnorm", "eps"_a = 1e-5)
      .def(
          "__call__",
          [](const Norm& self, const ArrayObject& x) {
            const Array& input = to_array("Norm", "x", x);
            return wrap(in_scope([&] { return self(input); }));
          },
          "x"_a)
      .def_prop_ro("weight", [](const Norm& self) { return wrap(Array(self.gamma)); })
      .def_prop_ro("bias", [](const Norm& self) { return or_none(self.beta); })
      .def_prop_ro("norm_type", [](const Norm& self) { return self.beta.defined() ? "layernorm" : "rmsnorm"; })
      .def_ro("eps", &Norm::eps);
}

void bind_attention_layer(nb::module_& m) {
  using A = AttentionObject;
  nb::class_<A>(m, "Attention", "Self-attention with a cache of keys and values.", nb::dynamic_attr())
      .def(
          "__init__",
          [](A* self, MatrixArg q_proj, MatrixArg k_proj, MatrixArg v_proj, MatrixArg o_proj,
             const TransformerConfig& config, ArrayArg q_bias, ArrayArg k_bias, ArrayArg v_bias, ArrayArg o_bias,
             Shown<"Norm | None"> q_norm, Shown<"Norm | None"> k_norm) {
            constexpr const char* kOp = "Attention";
            const auto gamma = [&](nb::handle norm) {
              return norm.is_none() ? Array() : nb::cast<const Norm&>(norm).gamma;
            };
            const AttentionParts parts{to_linear(kOp, "q_proj", q_proj, q_bias),
                                       to_linear(kOp, "k_proj", k_proj, k_bias),
                                       to_linear(kOp, "v_proj", v_proj, v_bias),
                                       to_linear(kOp, "o_proj", o_proj, o_bias),
                                       gamma(q_norm),
                                       gamma(k_norm)};
            new (self) A{in_scope([&] { return make_attention(config, parts); })};
          },
          "q_proj"_a.none(), "k_proj"_a.none(), "v_proj"_a.none(), "o_proj"_a.none(), "config"_a,
          "q_bias"_a = nb::none(), "k_bias"_a = nb::none(), "v_bias"_a = nb::none(), "o_bias"_a = nb::none(),
          "q_norm"_a = nb::none(), "k_norm"_a = nb::none())
      .def(
          "__call__",
          [](const A& self, const ArrayObject& x, AnyArg position_ids, PastArg past_kv, bool use_cache) {
            const Array& input = to_array("Attention", "x", x);
            return with_past(self.layer, input, position_ids, past_kv, use_cache,
                             [&](const AttentionLayer& layer, const KvCache& cache, int64_t start) {
                               return call(layer, input, cache, {start});
                             });
          },
          "x"_a, "position_ids"_a = nb::none(), "past_kv"_a = nb::none(), "use_cache"_a = false,
          "(out, (k, v) of all tokens so far or None). position_ids: by which RoPE turns; a token sees those before it "
          "in x and past_kv, whatever their positions.")
      .def(
          "init_fixed_cache",
          [](A& self, int64_t max_seq_len, DTypeArg dtype) {
            const DType kind = to_dtype(dtype);
            in_scope([&] { return self.init_cache(max_seq_len, kind), 0; });
          },
          "max_seq_len"_a, "dtype"_a = "float16", "Makes _k_cache and _v_cache, [num_heads, max_seq_len, head_dim].")
      .def(
          "forward_fixed_cache",
          [](const A& self, const ArrayObject& x, int64_t position, int64_t, ArrayArg out) {
            const Array& input = to_array("Attention", "x", x);
            return with_out("Attention", out, [&](const Array* target) {
              return call(self.layer, input, self.cache(), {position}, target);
            });
          },
          "x"_a, "position"_a, "context_len"_a, nb::kw_only(), "out"_a = nb::none(),
          "One token at `position`, after those of the fixed cache; it sees position + 1 tokens.")
      .def(
          "forward_fixed_cache_batch",
          [](const A& self, const ArrayObject& x, int64_t start_position, int64_t) {
            const Array& input = to_array("Attention", "x", x);
            return wrap(in_scope([&] { return call(self.layer, input, self.cache(), {start_position}); }));
          },
          "x"_a, "start_position"_a, "context_len"_a, "Several tokens from `start_position` on.")
      .def(
          "forward_fixed_cache_batch_zero_alloc",
          [](const A& self, const ArrayObject& x, int64_t start_position, int64_t, AnyArg buffers, AnyArg, AnyArg,
             ArrayArg start_pos_buf) {
            constexpr const char* kOp = "Attention";
            const Array& input = to_array(kOp, "x", x);
            const Array more = optional(kOp, "start_pos_buf", start_pos_buf);
            if (more.defined()) {
              check_dtype(kOp, "start_pos_buf", more, DType::int32);
              check_shape(kOp, "start_pos_buf", more, {1});
            }
            const Array& rows = to_array(kOp, "buffers.o_proj_out_batch", nb::getattr(buffers, "o_proj_out_batch"));
            return wrap(in_scope([&] {
              check_ndim(kOp, "x", input, 2);
              check_ndim(kOp, "buffers.o_proj_out_batch", rows, 2);
              if (input.shape(0) > rows.shape(0))
                throw ShapeError(kOp, "x", "have at most the " + std::to_string(rows.shape(0)) + " rows of the buffers",
                                 std::to_string(input.shape(0)));
              const Array out = rows.narrow(0, 0, input.shape(0));
              return call(self.layer, input, self.cache(), {more.defined() ? 0 : start_position, more}, &out);
            }));
          },
          "x"_a, "start_position"_a, "context_len"_a, "buffers"_a, "rope_cos_gpu"_a = nb::none(),
          "rope_sin_gpu"_a = nb::none(), "start_pos_buf"_a = nb::none(),
          "The same into buffers.o_proj_out_batch, of DecodeBuffers with max_batch_size; nothing is allocated. "
          "start_pos_buf: the start in device memory, int32 [1], in place of start_position. RoPE takes the layer's "
          "own "
          "tables.")
      .def_prop_ro("_k_cache", [](const A& self) { return or_none(self.k_cache); })
      .def_prop_ro("_v_cache", [](const A& self) { return or_none(self.v_cache); })
      .def_prop_ro("_cos", [](const A& self) { return doubled(self.layer.cos); })
      .def_prop_ro("_sin", [](const A& self) { return doubled(self.layer.sin); })
      .def_prop_ro("qkv_proj",
                   [](const A& self) {
                     return Linear{self.layer.qkv.front(), self.layer.qkv_bias};
                   })
      .def_prop_ro("o_proj", [](const A& self) { return self.layer.out; })
      .def_prop_ro("num_heads", [](const A& self) { return self.layer.num_heads; })
      .def_prop_ro("num_kv_heads", [](const A& self) { return self.layer.num_kv_heads; })
      .def_prop_ro("num_kv_groups", [](const A& self) { return self.layer.num_heads / self.layer.num_kv_heads; })
      .def_prop_ro("head_dim", [](const A& self) { return self.layer.dim; })
      .def_prop_ro("q_dim", [](const A& self) { return self.layer.num_heads * self.layer.dim; })
      .def_prop_ro("k_dim", [](const A& self) { return self.layer.num_kv_heads * self.layer.dim; })
      .def_prop_ro("v_dim", [](const A& self) { return self.layer.num_kv_heads * self.layer.dim; })
      .def(
          "set_confirmed_pos", [](A& self, int64_t pos) { self.confirmed = pos; }, "pos"_a)
      .def("get_confirmed_pos", [](const A& self) { return self.confirmed; })
      .def(
          "reset_lookahead", [](A&) {}, "Nothing to undo: what lies after the confirmed position is written anew.")
      .def(
          "commit_lookahead", [](A& self, int64_t n) { self.confirmed += n; }, "n_accepted"_a);
}

void bind_feed_forward(nb::module_& m) {
  nb::class_<MlpLayer>(m, "MLP", "down(silu(gate(x)) * up(x)), or fc2(gelu(fc1(x))).")
      .def(
          "__init__",
          [](MlpLayer* self, const TransformerConfig& config, MatrixArg fc1, ArrayArg fc1_bias, MatrixArg fc2,
             ArrayArg fc2_bias, MatrixArg gate, MatrixArg up, MatrixArg down) {
            MlpLayer made;
            if (config.mlp == MlpKind::gelu)
              made = {{}, to_linear("MLP", "fc1_weight", fc1, fc1_bias), to_linear("MLP", "fc2_weight", fc2, fc2_bias)};
            else
              made = {to_linear("MLP", "gate_proj", gate), to_linear("MLP", "up_proj", up),
                      to_linear("MLP", "down_proj", down)};
            if (!made.up.weight.defined() || !made.down.weight.defined() ||
                (config.mlp == MlpKind::silu && !made.gate.weight.defined()))
              throw ArgumentError(
                  "MLP", config.mlp == MlpKind::gelu ? "fc1_weight and fc2_weight" : "gate_proj, up_proj and down_proj",
                  "be matrices", "None");
            new (self) MlpLayer(std::move(made));
          },
          "config"_a, "fc1_weight"_a = nb::none(), "fc1_bias"_a = nb::none(), "fc2_weight"_a = nb::none(),
          "fc2_bias"_a = nb::none(), "gate_proj"_a = nb::none(), "up_proj"_a = nb::none(), "down_proj"_a = nb::none())
      .def(
          "__call__",
          [](const MlpLayer& self, const ArrayObject& x, ArrayArg out) {
            const Array& input = to_array("MLP", "x", x);
            return with_out("MLP", out, [&](const Array* target) { return call(self, input, target); });
          },
          "x"_a, nb::kw_only(), "out"_a = nb::none())
      .def_prop_ro("gate_proj", [](const MlpLayer& self) { return linear_or_none(self.gate, is_gated(self)); })
      .def_prop_ro("up_proj", [](const MlpLayer& self) { return linear_or_none(self.up, is_gated(self)); })
      .def_prop_ro("down_proj", [](const MlpLayer& self) { return linear_or_none(self.down, is_gated(self)); })
      .def_prop_ro("fc1", [](const MlpLayer& self) { return linear_or_none(self.up, !is_gated(self)); })
      .def_prop_ro("fc2", [](const MlpLayer& self) { return linear_or_none(self.down, !is_gated(self)); });
  nb::class_<MoeLayer>(m, "MoELayer", "Top-k experts of a router.")
      .def(
          "__init__",
          [](MoeLayer* self, const TransformerConfig& config, MatrixArg gate_weight,
             Shown<"collections.abc.Sequence[tuple[pygpukit.GPUArray, pygpukit.GPUArray, pygpukit.GPUArray]]">
                 expert_weights) {
            constexpr const char* kOp = "MoELayer";
            std::vector<ExpertMatrices> experts;
            for (nb::handle expert : to_items(kOp, "expert_weights", expert_weights)) {
              const nb::tuple three = to_items(kOp, "expert_weights", expert, 3);
              if (three.size() != 3)
                throw ArgumentError(kOp, "expert_weights", "be (gate, up, down) each", shown(expert));
              experts.push_back({to_linear(kOp, "expert_weights", three[0]).weight,
                                 to_linear(kOp, "expert_weights", three[1]).weight,
                                 to_linear(kOp, "expert_weights", three[2]).weight});
            }
            const Weight router = to_linear(kOp, "gate_weight", gate_weight).weight;
            new (self) MoeLayer(in_scope([&] { return make_moe(config, router, experts); }));
          },
          "config"_a, "gate_weight"_a.none(), "expert_weights"_a)
      .def(
          "__call__",
          [](const MoeLayer& self, const ArrayObject& x, ArrayArg out) {
            const Array& input = to_array("MoELayer", "x", x);
            return with_out("MoELayer", out, [&](const Array* target) { return call(self, input, target); });
          },
          "x"_a, nb::kw_only(), "out"_a = nb::none())
      .def(
          "forward_zero_alloc",
          [](const MoeLayer& self, const ArrayObject& x, AnyArg, AnyArg, AnyArg, AnyArg, AnyArg, AnyArg, AnyArg, AnyArg,
             AnyArg, AnyArg, AnyArg, AnyArg, AnyArg, const ArrayObject& output) {
            const Array& input = to_array("MoELayer", "x", x);
            const Array& target = to_array("MoELayer", "output", output);
            return wrap(in_scope([&] { return call(self, input, &target); }));
          },
          "x"_a, "router_logits"_a.none(), "router_weights"_a.none(), "expert_indices"_a.none(),
          "expert_counts"_a.none(), "expert_offsets"_a.none(), "permute_indices"_a.none(), "reverse_perm"_a.none(),
          "row_expert_ids"_a.none(), "gathered"_a.none(), "gate_out"_a.none(), "up_out"_a.none(),
          "intermediate"_a.none(), "expert_outputs"_a.none(), "output"_a,
          "The same into `output`; nothing is allocated. What lies between comes from the workspace of the stream: the "
          "other arrays stay as they are.");
}

void bind_block(nb::module_& m) {
  using B = BlockObject;
  nb::class_<B>(m, "TransformerBlock", "x + attn(norm(x)), then the same with the feed-forward layer.")
      .def(
          "__init__",
          [](B* self, const Norm& attn_norm, nb::typed<nb::object, AttentionObject> attn, const Norm& mlp_norm,
             MlpArg mlp) {
            B made;
            made.block.attn_norm = attn_norm;
            made.block.mlp_norm = mlp_norm;
            made.block.attn = nb::cast<const AttentionObject&>(attn).layer;
            made.attn = attn;
            const MlpLayer* dense = nullptr;
            if (nb::try_cast(mlp, dense) && dense != nullptr)
              made.block.mlp = *dense;
            else
              made.block.mlp = nb::cast<const MoeLayer&>(mlp);
            new (self) B(std::move(made));
          },
          "attn_norm"_a, "attn"_a, "mlp_norm"_a, "mlp"_a)
      .def(
          "__call__",
          [](const B& self, const ArrayObject& x, AnyArg position_ids, PastArg past_kv, bool use_cache) {
            const Array& input = to_array("TransformerBlock", "x", x);
            return with_past(self.block.attn, input, position_ids, past_kv, use_cache,
                             [&](const AttentionLayer& layer, const KvCache& cache, int64_t start) {
                               TransformerBlock block = self.block;
                               block.attn = layer;
                               return call(block, input, cache, start);
                             });
          },
          "x"_a, "position_ids"_a = nb::none(), "past_kv"_a = nb::none(), "use_cache"_a = false, "(x, (k, v) or None).")
      .def_prop_ro("attn_norm", [](const B& self) { return self.block.attn_norm; })
      .def_prop_ro("attn", [](const B& self) { return nb::typed<nb::object, AttentionObject>(self.attn); })
      .def_prop_ro("mlp_norm", [](const B& self) { return self.block.mlp_norm; })
      .def_prop_ro(
          "mlp", [](const B& self) -> ShownObject<"MLP | MoELayer"> {
            return std::visit([](const auto& layer) { return nb::cast(layer); }, self.block.mlp);
          });
}

}  // namespace
}  // namespace gpukit::llm

namespace gpukit {

void bind_llm_layers(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_llm", "The classes of pygpukit.llm; internal.");
  llm::bind_linear_layers(m);
  llm::bind_attention_layer(m);
  llm::bind_feed_forward(m);
  llm::bind_block(m);
}

}  // namespace gpukit
