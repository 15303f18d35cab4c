#include "gpukit/ops/moe/moe.h"

#include <nanobind/stl/string.h>

#include "gpukit/base/error.h"
#include "gpukit/ops/quantize/quantize_py.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

using WeightArg = Shown<"GPUArray | Weight">;
using ExpertsArg = Shown<"GPUArray | ExpertWeights">;
using SharedArg = Shown<
    "tuple[GPUArray | Weight, GPUArray | Weight] | tuple[GPUArray | Weight, GPUArray | Weight, GPUArray | Weight] | "
    "None">;

Array optional(const char* op, const char* argument, nb::handle value) {
  const Array* a = to_optional_array(op, argument, value);
  return a == nullptr ? Array() : *a;
}

Weight to_weight(const char* argument, nb::handle value) {
  const Weight* weight = nullptr;
  if (nb::try_cast(value, weight, false) && weight != nullptr) return *weight;
  return Weight(to_array("moe", argument, value));
}

ExpertWeights to_experts(const char* argument, nb::handle value) {
  const ExpertWeights* weights = nullptr;
  if (nb::try_cast(value, weights, false) && weights != nullptr) return *weights;
  return ExpertWeights(to_array("moe", argument, value));
}

MoeWeights to_weights(nb::handle router, nb::handle gate_up, nb::handle down, nb::handle shared) {
  MoeWeights w;
  w.router = to_weight("router", router);
  w.gate_up = to_experts("gate_up", gate_up);
  w.down = to_experts("down", down);
  if (shared.is_none()) return w;
  const nb::tuple parts = to_items("moe", "shared_expert", shared, 3);
  if (parts.size() < 2)
    throw ArgumentError("moe", "shared_expert", "be (gate_up, down) or (gate_up, down, gate)",
                        std::to_string(parts.size()) + " of them");
  w.shared_gate_up = to_weight("shared_expert[0]", parts[0]);
  w.shared_down = to_weight("shared_expert[1]", parts[1]);
  if (parts.size() == 3) w.shared_gate = to_weight("shared_expert[2]", parts[2]);
  return w;
}

ExpertWeights make(nb::handle data, nb::handle scale, nb::handle zero, nb::handle tensor_scale) {
  constexpr const char* kOp = "ExpertWeights";
  const Quantized codes(to_array(kOp, "data", data), optional(kOp, "scale", scale), optional(kOp, "zero", zero),
                        optional(kOp, "tensor_scale", tensor_scale));
  const bool plain = !codes.scale.defined() && !codes.zero.defined() && !codes.tensor_scale.defined() &&
                     !is_storage_only(codes.data.dtype()) && codes.data.dtype() != DType::int8;
  return in_scope([&] { return plain ? ExpertWeights(codes.data) : ExpertWeights(codes); });
}

std::string repr(const ExpertWeights& w) {
  return "ExpertWeights(" + Dims{w.experts(), w.rows(), w.columns()}.str() + ", " + name(w.dtype()) + ", " +
         str(w.device()) + ")";
}

ShownObject<"GPUArray | None"> part(const Array& array) {
  if (array.defined()) return wrap(Array(array));
  return nb::none();
}

void bind_expert_weights(nb::module_& m) {
  nb::class_<ExpertWeights>(m, "ExpertWeights",
                            "The matrices of all experts of a layer, [experts, n, k] with a row for each output: dense "
                            "or quantised. moe takes it in place of an array.")
      .def(
          "__init__",
          [](ExpertWeights* self, ArrayArg data, ArrayArg scale, ArrayArg zero, ArrayArg tensor_scale) {
            new (self) ExpertWeights(make(data, scale, zero, tensor_scale));
          },
          "data"_a, "scale"_a = nb::none(), nb::kw_only(), "zero"_a = nb::none(), "tensor_scale"_a = nb::none(),
          "Dense matrices of floats, or codes with the scales that quantize gave a 3-D array.")
      .def_static(
          "stack",
          [](Shown<"collections.abc.Sequence[Weight]"> experts) {
            std::vector<Weight> weights;
            for (nb::handle item : to_items("ExpertWeights.stack", "experts", experts)) {
              const Weight* weight = nullptr;
              if (!nb::try_cast(item, weight, false) || weight == nullptr)
                throw nb::type_error("ExpertWeights.stack: experts must be Weights");
              weights.push_back(*weight);
            }
            return in_scope([&] { return ExpertWeights::stack(weights); });
          },
          "experts"_a, "Copies of the matrices of experts, all of one shape and format.")
      .def_prop_ro(
          "shape",
          [](const ExpertWeights& w) {
            return from_dims({w.experts(), w.rows(), w.columns()});
          },
          "(experts, n, k)")
      .def_prop_ro(
          "dtype", [](const ExpertWeights& w) { return from_dtype(w.dtype()); }, "Of the numbers, or of the codes.")
      .def_prop_ro("is_quantized", &ExpertWeights::is_quantized, "Whether it holds codes.")
      .def_prop_ro("nbytes", &ExpertWeights::nbytes, "Bytes of numbers or codes, scales and zero points.")
      .def_prop_ro(
          "data", [](const ExpertWeights& w) { return part(w.parts().data); }, "The matrices, or their codes.")
      .def_prop_ro(
          "scale", [](const ExpertWeights& w) { return part(w.parts().scale); }, "Scales of blocks, or None.")
      .def_prop_ro(
          "tensor_scale", [](const ExpertWeights& w) { return part(w.parts().tensor_scale); },
          "One for all experts or one for each, or None.")
      .def("__repr__", &repr);
}

void bind_steps(nb::module_& m) {
  m.def(
      "moe_topk_with_indices",
      [](const ArrayObject& logits, const ArrayObject& values, const ArrayObject& indices, IntArg k) {
        constexpr const char* kOp = "moe_topk_with_indices";
        const Array& l = to_array(kOp, "logits", logits);
        const Array& v = to_array(kOp, "values", values);
        const Array& i = to_array(kOp, "indices", indices);
        const int64_t count = to_int(kOp, "k", k);
        in_scope([&] {
          check_ndim(kOp, "logits", l, 2);
          check_shape(kOp, "values", v, {l.shape()[0], count});
          return moe_topk_with_indices(l, v, i), 0;
        });
      },
      "logits"_a, "values"_a, "indices"_a, "k"_a,
      "values, indices [tokens, k] = the k largest of each row of logits [tokens, experts], largest first.");
  m.def(
      "moe_softmax_topk",
      [](const ArrayObject& values, IntArg k) {
        constexpr const char* kOp = "moe_softmax_topk";
        const Array& v = to_array(kOp, "values", values);
        const int64_t count = to_int(kOp, "k", k);
        in_scope([&] {
          check_ndim(kOp, "values", v, 2);
          check_shape(kOp, "values", v, {v.shape()[0], count});
          return moe_softmax_topk(v), 0;
        });
      },
      "values"_a, "k"_a, "softmax over each row of values [tokens, k], in place.");
  m.def(
      "moe_compute_permutation",
      [](const ArrayObject& ids, const ArrayObject& counts, const ArrayObject& offsets, const ArrayObject& permute,
         const ArrayObject& reverse, IntArg num_experts, IntArg k) {
        constexpr const char* kOp = "moe_compute_permutation";
        const Array& e = to_array(kOp, "expert_indices", ids);
        const Array& c = to_array(kOp, "expert_counts", counts);
        const Array& o = to_array(kOp, "expert_offsets", offsets);
        const Array& p = to_array(kOp, "permute_indices", permute);
        const Array& r = to_array(kOp, "reverse_perm", reverse);
        const int64_t experts = to_int(kOp, "num_experts", num_experts), slots = to_int(kOp, "k", k);
        in_scope([&] {
          check_shape(kOp, "expert_counts", c, {experts});
          if (slots < 1 || e.size() % slots != 0)
            throw ArgumentError(kOp, "k", "divide the number of indices, " + std::to_string(e.size()),
                                std::to_string(slots));
          return moe_compute_permutation(e, c, o, p, r), 0;
        });
      },
      "expert_indices"_a, "expert_counts"_a, "expert_offsets"_a, "permute_indices"_a, "reverse_perm"_a, "num_experts"_a,
      "k"_a,
      "The order of rows by expert: permute_indices[p] = token * k + slot of the row at place p, reverse_perm its "
      "inverse; counts [experts] and offsets [experts + 1]. Rows with the id -1 come last. All int32.");
  m.def(
      "moe_gather",
      [](const ArrayObject& hidden, const ArrayObject& permute, const ArrayObject& gathered, IntArg k) {
        constexpr const char* kOp = "moe_gather";
        const Array& h = to_array(kOp, "hidden", hidden);
        const Array& p = to_array(kOp, "permute_indices", permute);
        const Array& g = to_array(kOp, "gathered", gathered);
        const int64_t count = to_int(kOp, "k", k);
        in_scope([&] { return moe_gather(h, p, g, count), 0; });
      },
      "hidden"_a, "permute_indices"_a, "gathered"_a, "k"_a, "gathered[p] = hidden[permute_indices[p] // k].");
  m.def(
      "moe_scatter",
      [](const ArrayObject& rows, const ArrayObject& weights, const ArrayObject& reverse, const ArrayObject& output,
         IntArg k) {
        constexpr const char* kOp = "moe_scatter";
        const Array& e = to_array(kOp, "expert_outputs", rows);
        const Array& w = to_array(kOp, "router_weights", weights);
        const Array& r = to_array(kOp, "reverse_perm", reverse);
        const Array& o = to_array(kOp, "output", output);
        const int64_t count = to_int(kOp, "k", k);
        in_scope([&] {
          check_ndim(kOp, "router_weights", w, 2);
          check_shape(kOp, "router_weights", w, {w.shape()[0], count});
          return moe_scatter(e, w, r, o), 0;
        });
      },
      "expert_outputs"_a, "router_weights"_a, "reverse_perm"_a, "output"_a, "k"_a,
      "output[t] = the sum over slots of router_weights[t, slot] * expert_outputs[reverse_perm[t * k + slot]].");
  m.def(
      "moe_expand_expert_offsets",
      [](const ArrayObject& offsets, const ArrayObject& row_expert_ids, IntArg num_experts) {
        constexpr const char* kOp = "moe_expand_expert_offsets";
        const Array& o = to_array(kOp, "expert_offsets", offsets);
        const Array& r = to_array(kOp, "row_expert_ids", row_expert_ids);
        const int64_t experts = to_int(kOp, "num_experts", num_experts);
        in_scope([&] {
          check_shape(kOp, "expert_offsets", o, {experts + 1});
          return moe_expand_expert_offsets(o, r), 0;
        });
      },
      "expert_offsets"_a, "row_expert_ids"_a, "num_experts"_a,
      "row_expert_ids[p] = the expert whose rows lie at place p, -1 past the last.");
}

}  // namespace

void bind_moe(nb::module_& m) {
  bind_expert_weights(m);
  m.def(
      "moe",
      [](const ArrayObject& x, WeightArg router, ExpertsArg gate_up, ExpertsArg down, IntArg top_k, bool softmax_first,
         bool normalize, SharedArg shared_expert, ArrayArg ids, bool sigmoid_input, ArrayArg out) {
        constexpr const char* kOp = "moe";
        const Array& tokens = to_array(kOp, "x", x);
        const MoeWeights weights = to_weights(router, gate_up, down, shared_expert);
        const MoeOptions options{to_int(kOp, "top_k", top_k), softmax_first, normalize, optional(kOp, "ids", ids),
                                 sigmoid_input};
        return with_out(kOp, out, [&](const Array* target) { return moe(tokens, weights, options, target); });
      },
      "x"_a, "router"_a, "gate_up"_a, "down"_a, "top_k"_a, nb::kw_only(), "softmax_first"_a = true,
      "normalize"_a = true, "shared_expert"_a = nb::none(), "ids"_a = nb::none(), "sigmoid_input"_a = false,
      "out"_a = nb::none(),
      "A mixture of experts: each token of x [tokens, hidden] goes to the top_k experts that router [experts, hidden] "
      "likes best, and gets the sum of gate * (silu(x @ gate.T) * (x @ up.T)) @ down.T.\n\n"
      "gate_up is [experts, 2 * width, hidden], the gate's rows first, down [experts, hidden, width]: arrays or "
      "ExpertWeights; router is an array or a Weight. Gates: softmax over all experts, of which top_k stay "
      "(normalize: divided by their sum), or with softmax_first=False softmax over those. shared_expert is (gate_up, "
      "down) of an expert for all tokens, or (gate_up, down, gate) with the sigmoid of x @ gate.T before it. ids: "
      "int32 [tokens]; a token with a negative one is padding and becomes 0. sigmoid_input: no softmax and no gates, "
      "but each expert gets x times the sigmoid of its logit.");
  bind_steps(m);
}

}  // namespace gpukit
