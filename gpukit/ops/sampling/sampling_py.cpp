#include "gpukit/ops/sampling/sampling.h"

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"

namespace gpukit {

namespace {

using namespace python;

using RealsArg = Shown<"float | GPUArray">;
using IntegersArg = Shown<"int | GPUArray">;
using SeedArg = Shown<"int | GPUArray | None">;

Array optional(const char* op, const char* argument, nb::handle value) {
  const Array* a = to_optional_array(op, argument, value);
  return a == nullptr ? Array() : *a;
}

float to_real(const char* op, const char* argument, nb::handle value) {
  const Scalar s = to_scalar(op, argument, value);
  if (s.kind == ScalarKind::complex) throw ArgumentError(op, argument, "be a real number", "a complex one");
  return static_cast<float>(s.real);
}

PerRow<float> reals(const char* op, const char* argument, nb::handle value) {
  if (const Array* rows = try_array(value)) return *rows;
  return to_real(op, argument, value);
}

/// top_k beyond int32 is as good as off.
int32_t to_count(const char* op, const char* argument, nb::handle value) {
  const int64_t count = to_int(op, argument, value);
  return count > 0 && count <= INT32_MAX ? static_cast<int32_t>(count) : 0;
}

/// A token with numbers for one row, waited for. As in 0.2 logits are [vocab] or [1, vocab].
int64_t token_of(const char* op, nb::handle logits, const SamplingParams& params) {
  const Array& given = to_array(op, "logits", logits);
  return in_scope([&] {
    const Array row = given.ndim() == 2 && given.shape()[0] == 1 ? given.squeeze(0) : given;
    if (row.ndim() != 1) throw ShapeError(op, "logits", "be [vocab] or [1, vocab]", given.shape().str());
    int32_t token = 0;
    to_host(&token, sample(row, params), op);
    return int64_t{token};
  });
}

SamplingParams one_row(const char* op, nb::handle temperature, nb::handle top_k, nb::handle top_p) {
  SamplingParams p;
  if (temperature.is_valid()) p.temperature = to_real(op, "temperature", temperature);
  if (top_k.is_valid()) p.top_k = to_count(op, "top_k", top_k);
  // 0.2: a top_p that is not above 0 is off.
  if (top_p.is_valid())
    if (const float mass = to_real(op, "top_p", top_p); mass > 0.0f) p.top_p = mass;
  return p;
}

/// A token into result_buf[0], drawn by one uniform number.
void sample_to_buffer(const char* op, nb::handle logits, nb::handle result_buf, const Array& uniform, nb::handle top_k,
                      nb::handle temperature) {
  const Array& given = to_array(op, "logits", logits);
  const Array& target = to_array(op, "result_buf", result_buf);
  SamplingParams p = one_row(op, temperature, top_k, {});
  in_scope([&] {
    check_shape(op, "result_buf", target, {1});
    p.uniform = uniform;
    return sample(given.ndim() == 1 ? given.expand_dims(0) : given, p, &target), 0;
  });
}

void bind_sample(nb::module_& m) {
  m.def(
      "sample",
      [](const ArrayObject& logits, RealsArg temperature, IntegersArg top_k, RealsArg top_p, RealsArg min_p,
         RealsArg repetition_penalty, RealsArg frequency_penalty, RealsArg presence_penalty, ArrayArg history,
         ArrayArg history_lengths, ArrayArg prompt_lengths, ArrayArg bias_ids, ArrayArg bias_values, ArrayArg allowed,
         SeedArg seed, IntegersArg position, ArrayArg uniform, ArrayArg out, ArrayArg logprobs, ArrayArg top_ids,
         ArrayArg top_logprobs) {
        constexpr const char* kOp = "sample";
        const Array& x = to_array(kOp, "logits", logits);
        SamplingParams p;
        p.temperature = reals(kOp, "temperature", temperature);
        if (const Array* rows = try_array(top_k))
          p.top_k = *rows;
        else
          p.top_k = to_count(kOp, "top_k", top_k);
        p.top_p = reals(kOp, "top_p", top_p);
        p.min_p = reals(kOp, "min_p", min_p);
        p.repetition = reals(kOp, "repetition_penalty", repetition_penalty);
        p.frequency = reals(kOp, "frequency_penalty", frequency_penalty);
        p.presence = reals(kOp, "presence_penalty", presence_penalty);
        p.history = optional(kOp, "history", history);
        p.history_lengths = optional(kOp, "history_lengths", history_lengths);
        p.prompt_lengths = optional(kOp, "prompt_lengths", prompt_lengths);
        p.bias_ids = optional(kOp, "bias_ids", bias_ids);
        p.bias_values = optional(kOp, "bias_values", bias_values);
        p.allowed = optional(kOp, "allowed", allowed);
        if (const Array* rows = try_array(seed))
          p.seed = *rows;
        else if (!seed.is_none())
          p.seed = to_uint64(kOp, "seed", seed);
        if (const Array* rows = try_array(position))
          p.position = *rows;
        else
          p.position = to_int(kOp, "position", position);
        p.uniform = optional(kOp, "uniform", uniform);
        const SamplingReport report{optional(kOp, "logprobs", logprobs), optional(kOp, "top_ids", top_ids),
                                    optional(kOp, "top_logprobs", top_logprobs)};
        return with_out(kOp, out, [&](const Array* target) { return sample(x, p, target, report); });
      },
      "logits"_a, "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0, "min_p"_a = 0.0, nb::kw_only(),
      "repetition_penalty"_a = 1.0, "frequency_penalty"_a = 0.0, "presence_penalty"_a = 0.0, "history"_a = nb::none(),
      "history_lengths"_a = nb::none(), "prompt_lengths"_a = nb::none(), "bias_ids"_a = nb::none(),
      "bias_values"_a = nb::none(), "allowed"_a = nb::none(), "seed"_a = nb::none(), "position"_a = 0,
      "uniform"_a = nb::none(), "out"_a = nb::none(), "logprobs"_a = nb::none(), "top_ids"_a = nb::none(),
      "top_logprobs"_a = nb::none(),
      "A token (int32) for each row of logits [rows, vocab], drawn on the device; nothing waits.\n\n"
      "Steps, each left out where it is off: repetition, frequency and presence penalties over history (int32 "
      "[rows, n]; the first prompt_lengths of its history_lengths ids count for repetition alone), allowed (bool "
      "[rows, vocab], or bits in int32), bias_values added to bias_ids, temperature (below 1e-6: the largest "
      "logit), top_k, top_p (the token that crosses it stays), min_p, the draw. Numbers may be arrays [rows], read "
      "on the device: float32, top_k and position int32, seed uint64. A row's token depends on its logits, numbers, "
      "seed and position alone; with one seed, on the row's index too. seed=None draws by set_sampling_seed's state; "
      "uniform (float32 [rows]) takes the place of the draw. Equal logits: the lowest index first. A row with NaN or "
      "with nothing allowed gives -1.\n\n"
      "logprobs (float32 [rows]), top_ids (int32 [rows, n]) and top_logprobs (float32) get log-probabilities of the "
      "chosen and of the n likeliest tokens, taken before temperature and cuts.");
}

}  // namespace

void bind_sampling(nb::module_& m) {
  bind_sample(m);
  m.def(
      "set_sampling_seed", [](IntArg seed) { sampling_generator().seed(to_uint64("set_sampling_seed", "seed", seed)); },
      "seed"_a, "Starts the draws of calls without a seed over.");
  m.def(
      "sample_token_gpu",
      [](const ArrayObject& logits, NumberArg temperature, IntArg top_k, NumberArg top_p) {
        return token_of("sample_token_gpu", logits, one_row("sample_token_gpu", temperature, top_k, top_p));
      },
      "logits"_a, "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0,
      "The token of one row of logits as an int. Waits; sample does not.");
  m.def(
      "sample_greedy",
      [](const ArrayObject& logits) {
        SamplingParams p;
        p.temperature = 0.0f;
        return token_of("sample_greedy", logits, p);
      },
      "logits"_a, "The likeliest token of one row, the lowest of equal ones. Waits.");
  m.def(
      "sample_multinomial",
      [](const ArrayObject& logits, NumberArg temperature) {
        return token_of("sample_multinomial", logits, one_row("sample_multinomial", temperature, {}, {}));
      },
      "logits"_a, "temperature"_a, "A token of one row, drawn from all. Waits.");
  m.def(
      "sample_topk",
      [](const ArrayObject& logits, IntArg top_k, NumberArg temperature) {
        return token_of("sample_topk", logits, one_row("sample_topk", temperature, top_k, {}));
      },
      "logits"_a, "top_k"_a, "temperature"_a, "A token of one row, drawn from the k likeliest. Waits.");
  m.def(
      "sample_topp",
      [](const ArrayObject& logits, NumberArg top_p, NumberArg temperature) {
        return token_of("sample_topp", logits, one_row("sample_topp", temperature, {}, top_p));
      },
      "logits"_a, "top_p"_a, "temperature"_a,
      "A token of one row, drawn from the fewest likeliest that reach top_p together. Waits.");
  m.def(
      "sample_topk_to_buf_ptr",
      [](const ArrayObject& logits, const ArrayObject& result_buf, const ArrayObject& random_val_buf, IntArg top_k,
         NumberArg temperature) {
        constexpr const char* kOp = "sample_topk_to_buf_ptr";
        sample_to_buffer(kOp, logits, result_buf, to_array(kOp, "random_val_buf", random_val_buf), top_k, temperature);
      },
      "logits"_a, "result_buf"_a, "random_val_buf"_a, "top_k"_a, "temperature"_a,
      "result_buf[0] (int32) = a token of the k likeliest, drawn by the uniform number random_val_buf[0] (float32). "
      "Can be captured.");
  compat_module(m).def(
      "sample_topk_to_buf",
      [](const ArrayObject& logits, const ArrayObject& result_buf, IntArg top_k, NumberArg temperature,
         NumberArg random_val) {
        constexpr const char* kOp = "sample_topk_to_buf";
        const float number = to_real(kOp, "random_val", random_val);
        const Device device = to_array(kOp, "logits", logits).device();
        const Array uniform = in_scope([&] { return from_host(&number, {1}, DType::float32, device); });
        sample_to_buffer(kOp, logits, result_buf, uniform, top_k, temperature);
      },
      "logits"_a, "result_buf"_a, "top_k"_a, "temperature"_a, "random_val"_a,
      "sample_topk_to_buf_ptr with the uniform number given here.");
}

}  // namespace gpukit
