#include "gpukit/engine/engine.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"
#include "gpukit/models/llm/llm_py.h"
#include "gpukit/python/errors.h"
#include "gpukit/python/gil.h"

namespace gpukit::engine {

namespace {

using namespace python;
constexpr const char* kOp = "generate";
using AllowedArg = Shown<"collections.abc.Callable[[list[int]], collections.abc.Sequence[int]] | None">;
using TokenizerArg = Shown<"pygpukit.llm.Tokenizer | pygpukit.llm.tokenizer.TokenizersTokenizer | None">;
using StopArg = Shown<"str | collections.abc.Sequence[str]">;
using BiasArg = Shown<"collections.abc.Mapping[int, float] | None">;

/// A Python function that any thread may call and let go of.
std::shared_ptr<nb::object> keep(nb::handle function) {
  return {new nb::object(nb::borrow(function)), [](nb::object* object) {
            const GilHeld gil;
            delete object;
          }};
}

/// What is no Exception (KeyboardInterrupt, SystemExit) is not the request's.
template <typename F>
auto call_back(F&& f) {
  const GilHeld gil;
  try {
    return f();
  } catch (const nb::python_error& error) {
    if (error.matches(PyExc_Exception)) throw;
    throw StepInterrupt{std::current_exception()};
  }
}

std::function<std::vector<int32_t>(const std::vector<int32_t>&)> to_allowed(nb::handle function) {
  if (function.is_none()) return {};
  return [kept = keep(function)](const std::vector<int32_t>& tokens) {
    return call_back([&] {
      nb::list list;
      for (const int32_t id : tokens) list.append(id);
      return llm::to_ids(kOp, "allowed", (*kept)(list));
    });
  };
}

/// Of our tokenizer, or of any object whose stream() gives one with push and flush.
std::optional<TextSource> to_text_source(nb::handle tokenizer) {
  if (tokenizer.is_none()) return std::nullopt;
  const text::Tokenizer* ours = nullptr;
  if (nb::try_cast(tokenizer, ours) && ours != nullptr) return text_source(*ours);
  if (!nb::hasattr(tokenizer, "stream"))
    throw ArgumentError(kOp, "tokenizer", "be a Tokenizer, or have its method stream()", shown(tokenizer));
  const auto stream = keep(tokenizer.attr("stream")());
  const auto text = [](nb::handle given) { return to_text(kOp, "text of a tokenizer", given); };
  return TextSource{[stream, text](int32_t id) { return call_back([&] { return text((*stream).attr("push")(id)); }); },
                    [stream, text] { return call_back([&] { return text((*stream).attr("flush")()); }); }};
}

Draw to_draw(double temperature, IntArg top_k, double top_p, double min_p, IntArg seed, double repetition_penalty,
             double frequency_penalty, double presence_penalty, BiasArg logit_bias) {
  const auto number = [](const char* argument, double value, double low, double high) {
    if (!(value >= low && value <= high))
      throw ArgumentError(kOp, argument, "be in [" + number_text(low) + ", " + number_text(high) + "]",
                          number_text(value));
    return static_cast<float>(value);
  };
  Draw d;
  d.temperature = number("temperature", temperature, 0, 1e6);
  const int64_t k = to_int(kOp, "top_k", top_k);
  d.top_k = k > 0 && k <= INT32_MAX ? static_cast<int32_t>(k) : 0;
  d.top_p = top_p > 0 ? number("top_p", top_p, 0, 1e6) : 1.0f;
  d.min_p = number("min_p", min_p, 0, 1);
  d.repetition = number("repetition_penalty", repetition_penalty, 1e-6, 1e6);
  d.frequency = number("frequency_penalty", frequency_penalty, -1e6, 1e6);
  d.presence = number("presence_penalty", presence_penalty, -1e6, 1e6);
  if (seed.is_none()) {
    const random::State state = sampling_generator().take(kOp);
    d.seed = state.seed ^ (state.offset + 1) * 0x9e3779b97f4a7c15u;
  } else {
    d.seed = static_cast<uint64_t>(to_int(kOp, "seed", seed));
  }
  if (!logit_bias.is_none())
    for (auto [id, value] : nb::cast<nb::dict>(logit_bias))
      d.bias.emplace_back(static_cast<int32_t>(to_int(kOp, "logit_bias", id)),
                          number("logit_bias", nb::cast<double>(value), -1e6, 1e6));
  return d;
}

int64_t submit(Engine& self, IntsArg input_ids, IntArg max_new_tokens, double temperature, IntArg top_k, double top_p,
               double min_p, Shown<"int | None"> seed, double repetition_penalty, double frequency_penalty,
               double presence_penalty, BiasArg logit_bias, IntsArg stop_tokens, AllowedArg allowed,
               TokenizerArg tokenizer, StopArg stop) {
  Request r;
  r.prompt = llm::to_ids(kOp, "input_ids", input_ids);
  r.max_new_tokens = to_int(kOp, "max_new_tokens", max_new_tokens);
  r.draw = to_draw(temperature, top_k, top_p, min_p, seed, repetition_penalty, frequency_penalty, presence_penalty,
                   logit_bias);
  r.stop_tokens = llm::to_ids(kOp, "stop_tokens", stop_tokens);
  r.allowed = to_allowed(allowed);
  r.text = to_text_source(tokenizer);
  if (nb::isinstance<nb::str>(stop))
    r.stop.push_back(to_text(kOp, "stop", stop));
  else
    for (nb::handle one : to_items(kOp, "stop", stop)) r.stop.push_back(to_text(kOp, "stop", one));
  return in_scope([&] { return self.submit(std::move(r)); });
}

Engine::Options to_options(IntArg max_sequences, IntArg max_tokens, IntArg num_pages, IntArg page_size,
                           IntArg token_budget, Shown<"pygpukit.typing.DTypeLike | None"> cache_dtype, bool graphs,
                           bool verify_graphs, bool logprobs, IntArg top_logprobs, bool keep_prefixes) {
  Engine::Options o;
  o.max_sequences = to_int("Engine", "max_sequences", max_sequences);
  o.max_tokens = to_int("Engine", "max_tokens", max_tokens);
  o.num_pages = to_int("Engine", "num_pages", num_pages);
  o.page_size = to_int("Engine", "page_size", page_size);
  o.token_budget = to_int("Engine", "token_budget", token_budget);
  o.cache_dtype = to_optional_dtype(cache_dtype);
  o.graphs = graphs;
  o.verify_graphs = verify_graphs;
  o.top_logprobs = to_int("Engine", "top_logprobs", top_logprobs);
  o.logprobs = logprobs || o.top_logprobs > 0;
  o.keep_prefixes = keep_prefixes;
  return o;
}

int32_t id_of(const Output& output) {
  if (!output.error) return output.drawn.token;
  const nb::object error = to_exception(output.error);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

nb::typed<nb::list, nb::typed<nb::tuple, int, float>> top_of(const Output& output) {
  nb::list list;
  for (const auto& [id, logprob] : output.drawn.top) list.append(nb::make_tuple(id, logprob));
  return list;
}

}  // namespace
}  // namespace gpukit::engine

namespace gpukit {

void bind_engine(nb::module_& parent) {
  using namespace engine;
  nb::module_ m = parent.def_submodule("_llm", "The classes of pygpukit.llm; internal.");
  nb::class_<Output>(m, "Token", "One new token of a request.")
      .def_ro("request", &Output::request)
      .def_prop_ro("id", &id_of, "Raises what ended the request where finish is 'error'.")
      .def_prop_ro(
          "logprob", [](const Output& o) { return o.drawn.logprob; }, "With an engine of log-probabilities.")
      .def_prop_ro("top", &top_of, "(id, log-probability) of the likeliest, likeliest first.")
      .def_prop_ro(
          "text", [](const Output& o) { return from_text(o.text); },
          "With a tokenizer: what can be shown now, without half characters and stop strings.")
      .def_prop_ro(
          "finish",
          [](const Output& o) -> std::optional<std::string> {
            if (o.finish == Finish::none) return std::nullopt;
            return std::string(name(o.finish));
          },
          "None, or why the request ended: length, stop_token, stop_string, error.")
      .def_prop_ro(
          "error", [](const Output& o) -> ShownObject<"BaseException | None"> {
            return o.error ? to_exception(o.error) : nb::object(nb::none());
          },
          "What ended the request where finish is 'error'; then nothing was drawn.");
  nb::class_<Engine>(m, "Engine",
                     "Many requests on one model: they join and leave between steps, and each gets the tokens it would "
                     "get alone.")
      .def(
          "__init__",
          [](Engine* self, std::shared_ptr<llm::CausalTransformer> model, IntArg max_sequences, IntArg max_tokens,
             IntArg num_pages, IntArg page_size, IntArg token_budget,
             Shown<"pygpukit.typing.DTypeLike | None"> cache_dtype, bool graphs, bool verify_graphs, bool logprobs,
             IntArg top_logprobs, bool keep_prefixes) {
            const Engine::Options options =
                to_options(max_sequences, max_tokens, num_pages, page_size, token_budget, cache_dtype, graphs,
                           verify_graphs, logprobs, top_logprobs, keep_prefixes);
            in_scope([&] { return new (self) Engine(std::move(model), options); });
          },
          "model"_a, nb::kw_only(), "max_sequences"_a = 1, "max_tokens"_a = 0, "num_pages"_a = 0, "page_size"_a = 64,
          "token_budget"_a = 512, "cache_dtype"_a = nb::none(), "graphs"_a = true, "verify_graphs"_a = false,
          "logprobs"_a = false, "top_logprobs"_a = 0, "keep_prefixes"_a = true,
          "max_tokens: of one sequence, 0 for the model's positions. num_pages: 0 for max_sequences such sequences.")
      .def_static(
          "for_requests",
          [](std::shared_ptr<llm::CausalTransformer> model, int64_t tokens, bool logprobs, IntArg top_logprobs) {
            Engine::Options options = options_for(*model, tokens);
            options.top_logprobs = to_int("Engine", "top_logprobs", top_logprobs);
            options.logprobs = logprobs || options.top_logprobs > 0;
            return in_scope([&] { return std::make_unique<Engine>(std::move(model), options); });
          },
          "model"_a, "tokens"_a, nb::kw_only(), "logprobs"_a = false, "top_logprobs"_a = 0,
          "An engine for a few requests of up to so many tokens, with room for longer ones where that is cheap.")
      .def(
          "serves",
          [](const Engine& self, int64_t tokens, bool logprobs, int64_t top_logprobs) {
            const Engine::Options& o = self.options();
            return o.max_tokens >= std::min(tokens, self.model().config().max_position_embeddings) &&
                   o.logprobs == (logprobs || top_logprobs > 0) && o.top_logprobs == top_logprobs;
          },
          "tokens"_a, "logprobs"_a = false, "top_logprobs"_a = 0, "Whether for_requests would make such an engine.")
      .def("submit", &submit, "input_ids"_a, "max_new_tokens"_a = 20, nb::kw_only(), "temperature"_a = 1.0,
           "top_k"_a = 0, "top_p"_a = 1.0, "min_p"_a = 0.0, "seed"_a = nb::none(), "repetition_penalty"_a = 1.0,
           "frequency_penalty"_a = 0.0, "presence_penalty"_a = 0.0, "logit_bias"_a = nb::none(),
           "stop_tokens"_a = nb::tuple(), "allowed"_a = nb::none(), "tokenizer"_a = nb::none(), "stop"_a = nb::tuple(),
           "The number of the request. stop: strings that end it, found in the text that `tokenizer` makes.")
      .def(
          "next", [](Engine& self, int64_t request) { return in_scope([&] { return self.next(request); }); },
          "request"_a,
          "The next token of one request; steps as often as it takes. Raises what ended the request, once.")
      .def(
          "step",
          [](Engine& self) {
            std::vector<Output> outputs = in_scope([&] { return self.step(); });
            nb::typed<nb::list, Output> list;
            for (Output& output : outputs) list.append(nb::cast(std::move(output)));
            return list;
          },
          "One step of all requests: their new tokens. A request that failed has one that says so: others go on.")
      .def(
          "cancel", [](Engine& self, int64_t request) { return in_scope([&] { return self.cancel(request); }); },
          "request"_a, "False when the request has ended.")
      .def(
          "idle", [](Engine& self) { return in_scope([&] { return self.idle(); }); }, "No request is left.")
      .def(
          "drop_prefixes", [](Engine& self) { in_scope([&] { self.drop_prefixes(); }); },
          "Gives the pages of ended texts back, which are kept for prompts that begin alike.")
      .def_prop_ro(
          "num_free_pages", [](const Engine& self) { return self.cache().free_pages(); },
          "Pages that neither a request nor an ended text has.")
      .def_prop_ro("max_tokens", [](const Engine& self) { return self.options().max_tokens; })
      .def_prop_ro("num_running", &Engine::num_running)
      .def_prop_ro("num_waiting", &Engine::num_waiting)
      .def_prop_ro("num_preempted", &Engine::num_preempted)
      .def_prop_ro("num_reused_tokens", &Engine::num_reused_tokens)
      .def_prop_ro("num_graphs", [](Engine& self) { return self.step_runner().num_graphs(); })
      .def_prop_ro("cache_bytes", [](const Engine& self) { return self.cache().nbytes(); });
}

}  // namespace gpukit
