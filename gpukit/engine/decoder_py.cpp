#include "gpukit/engine/decoder.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/models/llm/layer_objects_py.h"
#include "gpukit/models/llm/llm_py.h"

namespace gpukit {

namespace {

std::vector<KvCache> to_caches(nb::handle attention) {
  std::vector<KvCache> caches;
  for (nb::handle layer : python::to_items("Decoder", "attention", attention))
    caches.push_back(nb::cast<const llm::AttentionObject&>(layer).cache());
  return caches;
}

}  // namespace

void bind_decoder(nb::module_& parent) {
  using namespace engine;
  using namespace python;
  using Ids = std::vector<int32_t>;
  nb::module_ m = parent.def_submodule("_llm", "The classes of pygpukit.llm; internal.");
  nb::class_<Accepted>(m, "Accepted", "Tokens that follow, and what they cost.")
      .def_ro("tokens", &Accepted::tokens)
      .def_ro("drafted", &Accepted::drafted)
      .def_ro("iterations", &Accepted::iterations)
      .def_ro("converged", &Accepted::converged);
  nb::class_<Decoder>(m, "Decoder", "One sequence in the fixed caches of a model's attention layers.")
      .def(
          "__init__",
          [](Decoder* self, std::shared_ptr<llm::CausalTransformer> model, AnyArg attention, int64_t max_tokens) {
            std::vector<KvCache> caches = to_caches(attention);
            in_scope([&] { return new (self) Decoder(std::move(model), std::move(caches), max_tokens); });
          },
          "model"_a, "attention"_a, "max_tokens"_a)
      .def(
          "uses", [](const Decoder& self, AnyArg attention) { return self.uses(to_caches(attention)); }, "attention"_a,
          "Whether these layers have the caches that the decoder was made with.")
      .def_prop_ro("max_tokens", &Decoder::max_tokens)
      .def_prop_ro("capacity", &Decoder::capacity)
      .def_prop_ro("num_layers", &Decoder::num_layers)
      .def(
          "hidden",
          [](Decoder& self, const Ids& ids, int64_t start) {
            return wrap(in_scope([&] { return self.hidden(ids, start); }));
          },
          "ids"_a, "start"_a, "Hidden states of ids at start, start + 1, ...; the next step overwrites them.")
      .def(
          "logits",
          [](Decoder& self, const Ids& ids, int64_t start) {
            return wrap(in_scope([&] { return self.logits(ids, start); }));
          },
          "ids"_a, "start"_a, "Logits likewise.")
      .def(
          "replay",
          [](Decoder& self, const Ids& ids, int64_t start) {
            return wrap(in_scope([&] { return self.replay(ids, start); }));
          },
          "ids"_a, "start"_a, "The same by a graph, captured when a number of ids comes first.")
      .def(
          "prefill",
          [](Decoder& self, const Ids& ids, int64_t start) {
            return wrap(in_scope([&] { return self.prefill(ids, start); }));
          },
          "ids"_a, "start"_a, "The logits [1, vocab] after the last of ids alone.")
      .def(
          "check_draft",
          [](Decoder& self, int32_t token, int64_t position, const Ids& draft) {
            return in_scope([&] { return check_draft(self, token, position, draft); });
          },
          "token"_a, "position"_a, "draft"_a, "What follows `token`, with a draft of it checked in one step.")
      .def(
          "draft",
          [](Decoder& self, int32_t token, int64_t position, int64_t count, int64_t layers) {
            return in_scope([&] { return self.draft(token, position, count, layers); });
          },
          "token"_a, "position"_a, "count"_a, "layers"_a = -1, "Tokens that the first layers would choose.")
      .def(
          "draft_by_text",
          [](const Decoder& self, int32_t token, int64_t position, int64_t count, int64_t longest) {
            return draft_by_text(self, token, position, count, longest);
          },
          "token"_a, "position"_a, "count"_a, "longest"_a = 3,
          "What followed the last time that the text before ended in the same tokens; may be empty.")
      .def(
          "jacobi",
          [](Decoder& self, int32_t token, int64_t position, const Ids& guess, int64_t max_iterations) {
            return in_scope([&] { return jacobi(self, token, position, guess, max_iterations); });
          },
          "token"_a, "position"_a, "guess"_a, "max_iterations"_a, "What follows `token`, from a guess computed anew.");
}

}  // namespace gpukit
