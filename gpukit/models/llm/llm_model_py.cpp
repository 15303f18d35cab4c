#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "gpukit/base/error.h"
#include "gpukit/models/llm/layer_objects_py.h"
#include "gpukit/models/llm/llm_py.h"
#include "gpukit/models/llm/load.h"
#include "gpukit/models/llm/position_ids.h"
#include "gpukit/models/llm/random_model.h"
#include "gpukit/models/llm/sequence.h"

namespace gpukit::llm {

namespace {

using namespace python;
using KeysValuesArg = Shown<"list[tuple[pygpukit.GPUArray, pygpukit.GPUArray]] | None">;
using KeysValuesObject = ShownObject<"list[tuple[pygpukit.GPUArray, pygpukit.GPUArray]] | None">;
using ModelPtr = std::shared_ptr<CausalTransformer>;

KeysValues to_keys_values(nb::handle value) {
  KeysValues pairs;
  if (value.is_none()) return pairs;
  for (nb::handle pair : to_items("forward", "past_key_values", value)) {
    const nb::tuple parts = to_items("forward", "past_key_values", pair, 2);
    if (parts.size() != 2) throw ArgumentError("forward", "past_key_values", "be pairs of arrays", shown(pair));
    pairs.emplace_back(to_array("forward", "past_key_values", parts[0]),
                       to_array("forward", "past_key_values", parts[1]));
  }
  return pairs;
}

KeysValuesObject from_keys_values(KeysValues pairs) {
  nb::list list;
  for (auto& [k, v] : pairs) list.append(nb::make_tuple(wrap(std::move(k)), wrap(std::move(v))));
  return list;
}

/// Hidden states of ids after those of `before`.
Array forward_at(const CausalTransformer& model, const std::vector<int32_t>& ids,
                 const std::optional<std::vector<int64_t>>& positions, const KeysValues& before, KeysValues* present) {
  const int64_t start = before.empty() || before[0].first.ndim() == 0 ? 0 : before[0].first.shape(0);
  if (!positions || (positions->size() == ids.size() && follow(*positions, start)))
    return forward_sequence(model, ids, before, present);
  if (positions->size() != ids.size())
    throw ShapeError("forward", "position_ids", "have one for each of " + std::to_string(ids.size()) + " ids",
                     std::to_string(positions->size()));
  return forward_sequence(at_positions(model, *positions, start), ids, before, present);
}

CausalTransformer::Parts to_parts(nb::handle embed_tokens, nb::handle blocks, nb::handle lm_head,
                                  nb::handle position_embed) {
  constexpr const char* kOp = "CausalTransformerModel";
  CausalTransformer::Parts parts;
  parts.embed_tokens = to_array(kOp, "embed_tokens", embed_tokens);
  if (!position_embed.is_none()) parts.position_embed = to_array(kOp, "position_embed", position_embed);
  for (nb::handle block : to_items(kOp, "blocks", blocks))
    parts.blocks.push_back(nb::cast<const BlockObject&>(block).block);
  const Weight* weight = nullptr;
  if (nb::try_cast(lm_head, weight) && weight != nullptr)
    parts.head = *weight;
  else
    parts.head = Weight(lm_head.is_none() ? parts.embed_tokens : to_array(kOp, "lm_head", lm_head));
  return parts;
}

Residence& residence_of(const CausalTransformer& model, const char* op) {
  if (model.residence() == nullptr) throw Error(std::string(op) + ": the model was not loaded with evictable=True");
  return *model.residence();
}

ModelPtr load(PathArg path, DeviceArg device, Shown<"pygpukit.typing.DTypeLike | None"> dtype,
              Shown<"pygpukit.typing.DTypeLike | None"> quantize, IntArg group, SpecArg spec, bool evictable,
              Shown<"collections.abc.Callable[[int, int], object] | None"> progress) {
  const nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) nb::raise_python_error();
  const std::string where = to_text("load_model", "path", text);
  const Device target = to_device(device);
  LoadOptions options{to_optional_dtype(dtype), to_optional_dtype(quantize), to_int("load_model", "group", group),
                      evictable};
  if (!progress.is_none())
    options.progress = [progress](int64_t done, int64_t total) {
      const GilHeld gil;
      progress(done, total);
    };
  ModelSpec own;
  if (!spec.is_none()) {
    own = to_spec(spec);
    options.spec = &own;
  }
  return in_scope([&] { return std::const_pointer_cast<CausalTransformer>(load_model(where, target, options)); });
}

}  // namespace
}  // namespace gpukit::llm

namespace gpukit {

void bind_llm_model(nb::module_& parent) {
  using namespace llm;
  using Model = CausalTransformer;
  nb::module_ m = parent.def_submodule("_llm", "The classes of pygpukit.llm; internal.");
  nb::class_<Model>(m, "Transformer", "Weights of a language model and its forward.")
      .def(
          "__init__",
          [](Model* self, const TransformerConfig& config, const ArrayObject& embed_tokens, AnyArg blocks,
             const Norm& final_norm, Shown<"pygpukit.GPUArray | pygpukit.Weight | None"> lm_head,
             ArrayArg position_embed) {
            Model::Parts parts = to_parts(embed_tokens, blocks, lm_head, position_embed);
            parts.final_norm = final_norm;
            new (self) Model(config, std::move(parts));
          },
          "config"_a, "embed_tokens"_a, "blocks"_a, "final_norm"_a, "lm_head"_a = nb::none(),
          "position_embed"_a = nb::none())
      .def_static("load", &load, "path"_a, "device"_a = nb::none(), "dtype"_a = nb::none(), "quantize"_a = nb::none(),
                  "group"_a = 0, "spec"_a = nb::none(), "evictable"_a = false, "progress"_a = nb::none(),
                  "From a SafeTensors file, an index, a folder or the name of a model in the Hugging Face cache.")
      .def_static(
          "random",
          [](const TransformerConfig& config, DeviceArg device, Shown<"pygpukit.typing.DTypeLike | None"> dtype,
             Shown<"pygpukit.typing.DTypeLike | None"> quantize, IntArg group, uint64_t seed) {
            const Device target = to_device(device);
            const LoadOptions options{to_optional_dtype(dtype), to_optional_dtype(quantize),
                                      to_int("random_model", "group", group)};
            return in_scope(
                [&] { return std::const_pointer_cast<Model>(random_model(config, target, options, seed)); });
          },
          "config"_a, "device"_a = nb::none(), "dtype"_a = nb::none(), "quantize"_a = nb::none(), "group"_a = 0,
          "seed"_a = 0, "Weights drawn on the device, for measurements.")
      .def_prop_ro("config", [](const Model& self) { return self.config(); })
      .def_prop_ro("dtype", [](const Model& self) { return from_dtype(self.dtype()); })
      .def_prop_ro("device", [](const Model& self) { return self.device(); })
      .def_prop_ro("weight_bytes", &Model::weight_bytes, "Bytes of weights that one token of one sequence reads.")
      .def_prop_ro(
          "resident",
          [](const Model& self) { return self.residence() == nullptr || self.residence()->group().resident(); },
          "False while the memory of an evictable model serves others.")
      .def(
          "evict",
          [](const Model& self) { return in_scope([&] { return residence_of(self, "evict").group().evict(); }); },
          "Gives the memory of an evictable model up until it is used again. The device bytes that became free.")
      .def(
          "restore",
          [](const Model& self) { in_scope([&] { return residence_of(self, "restore").group().restore(), 0; }); },
          "Brings an evictable model back. Any use of it does.")
      .def_prop_ro("embed_tokens", [](const Model& self) { return wrap(Array(self.parts().embed_tokens)); })
      .def_prop_ro(
          "position_embed", [](const Model& self) -> ShownObject<"pygpukit.GPUArray | None"> {
            const Array& table = self.parts().position_embed;
            return table.defined() ? nb::object(wrap(Array(table))) : nb::object(nb::none());
          })
      .def(
          "make_blocks",
          [](const Model& self) {
            nb::typed<nb::list, BlockObject> blocks;
            for (const TransformerBlock& block : self.parts().blocks)
              blocks.append(nb::cast(BlockObject{block, nb::cast(AttentionObject{block.attn})}));
            return blocks;
          },
          "The layers, with caches of their own; weights are shared.")
      .def_prop_ro("final_norm", [](const Model& self) { return self.parts().final_norm; })
      .def_prop_ro("head", [](const Model& self) { return self.parts().head; })
      .def_prop_ro("head_is_tied",
                   [](const Model& self) {
                     return self.parts().head.parts().data.storage() == self.parts().embed_tokens.storage();
                   })
      .def(
          "forward",
          [](const Model& self, IntsArg ids, Shown<"collections.abc.Sequence[int] | None"> positions,
             KeysValuesArg past, bool use_cache) {
            const std::vector<int32_t> tokens = to_ids("forward", "input_ids", ids);
            const KeysValues before = to_keys_values(past);
            std::optional<std::vector<int64_t>> at;
            if (!positions.is_none()) at = to_ints("forward", "position_ids", positions);
            KeysValues present;
            Array hidden =
                in_scope([&] { return forward_at(self, tokens, at, before, use_cache ? &present : nullptr); });
            return nb::typed<nb::tuple, Array, nb::any>(nb::make_tuple(
                wrap(std::move(hidden)), use_cache ? from_keys_values(std::move(present)) : nb::object(nb::none())));
          },
          "input_ids"_a, "position_ids"_a = nb::none(), "past_key_values"_a = nb::none(), "use_cache"_a = false,
          "Hidden states of a sequence, and its keys and values.")
      .def(
          "logits",
          [](const Model& self, const ArrayObject& hidden, ArrayArg out) {
            const Array& x = to_array("get_logits", "hidden", hidden);
            return with_out("get_logits", out, [&](const Array* target) { return self.logits(x, target); });
          },
          "hidden"_a, "out"_a = nb::none(), "hidden [rows, hidden] as logits [rows, vocab].");
}

}  // namespace gpukit
