// What the continuous batching of 0.2 called, by the operations it is today.
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/reduce/reduce.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"

namespace gpukit {

namespace {

using namespace python;

Array first(const char* op, const char* argument, const Array& a, int64_t count) {
  check_dtype(op, argument, a, DType::int32);
  if (a.ndim() != 1 || count < 0 || a.size() < count)
    throw ShapeError(op, argument, "have at least " + std::to_string(count) + " elements", a.shape().str());
  return a.narrow(0, 0, count);
}

/// Token t of [start, start + input) of its sequence is at t - start of a prompt, or that far after what was held.
Array position_ids(const Array& starts, const Array& contexts, const Array& is_prefill, const Array& inputs,
                   int64_t total) {
  const Array tokens = arange(0, total, 1, DType::int32, starts.device());
  const Array begin = starts.expand_dims(1), count = inputs.expand_dims(1);
  const Array held = where(is_prefill.expand_dims(1), 0, subtract(contexts.expand_dims(1), count));
  const Array offset = subtract(tokens, begin);
  const Array inside = logical_and(greater_equal(offset, 0), less(offset, count));
  return sum(where(inside, add(offset, held), 0), Dims{0}, false, DType::int32);
}

}  // namespace

void bind_batch_names(nb::module_& m) {
  nb::module_ compat = compat_module(m);
  compat.def(
      "prepare_batch_inputs",
      [](Shown<"collections.abc.Sequence[collections.abc.Sequence[int]]"> token_lists) {
        constexpr const char* kOp = "prepare_batch_inputs";
        std::vector<int32_t> tokens;
        for (nb::handle list : to_items(kOp, "token_lists", token_lists))
          for (const int64_t id : to_ints(kOp, "token_lists", list)) {
            if (id < INT32_MIN || id > INT32_MAX)
              throw OutOfRangeError(std::string(kOp) + ": token " + std::to_string(id) + " is out of range for int32");
            tokens.push_back(static_cast<int32_t>(id));
          }
        const auto count = static_cast<int64_t>(tokens.size());
        const Device device = to_device(nb::none());
        Array ids = in_scope([&] { return from_host(tokens.data(), {count}, DType::int32, device); });
        return nb::typed<nb::tuple, Array, int>(nb::make_tuple(wrap(std::move(ids)), count));
      },
      "token_lists"_a, "(int32 array of the tokens of all lists, how many they are).");
  compat.def(
      "gather_embeddings",
      [](const ArrayObject& token_ids, const ArrayObject& embeddings, IntArg total_tokens) {
        constexpr const char* kOp = "gather_embeddings";
        const Array& ids = to_array(kOp, "token_ids", token_ids);
        const Array& table = to_array(kOp, "embeddings", embeddings);
        const int64_t total = to_int(kOp, "total_tokens", total_tokens);
        return wrap(in_scope([&] { return embedding(kOp, table, first(kOp, "token_ids", ids, total)); }));
      },
      "token_ids"_a, "embeddings"_a, "total_tokens"_a, "embeddings[token_ids[:total_tokens]].");
  compat.def(
      "scatter_last_token_logits",
      [](const ArrayObject& logits, const ArrayObject& seq_start_positions, const ArrayObject& seq_lens,
         IntArg batch_size, IntArg vocab_size) {
        constexpr const char* kOp = "scatter_last_token_logits";
        const Array& x = to_array(kOp, "logits", logits);
        const Array& starts = to_array(kOp, "seq_start_positions", seq_start_positions);
        const Array& lengths = to_array(kOp, "seq_lens", seq_lens);
        const int64_t batch = to_int(kOp, "batch_size", batch_size), vocab = to_int(kOp, "vocab_size", vocab_size);
        return wrap(in_scope([&] {
          check_ndim(kOp, "logits", x, 2);
          check_shape(kOp, "logits", x, {x.shape()[0], vocab});
          const Array ends =
              add(first(kOp, "seq_start_positions", starts, batch), first(kOp, "seq_lens", lengths, batch));
          return embedding(kOp, x, subtract(ends, 1));
        }));
      },
      "logits"_a, "seq_start_positions"_a, "seq_lens"_a, "batch_size"_a, "vocab_size"_a,
      "The rows of the last tokens: logits[start + len - 1] of every sequence.");
  compat.def(
      "prepare_position_ids",
      [](const ArrayObject& seq_start_positions, const ArrayObject& seq_context_lens, const ArrayObject& is_prefill,
         const ArrayObject& input_lens, IntArg batch_size, IntArg total_tokens) {
        constexpr const char* kOp = "prepare_position_ids";
        const Array& starts = to_array(kOp, "seq_start_positions", seq_start_positions);
        const Array& contexts = to_array(kOp, "seq_context_lens", seq_context_lens);
        const Array& prefill = to_array(kOp, "is_prefill", is_prefill);
        const Array& inputs = to_array(kOp, "input_lens", input_lens);
        const int64_t batch = to_int(kOp, "batch_size", batch_size), total = to_int(kOp, "total_tokens", total_tokens);
        return wrap(in_scope([&] {
          return position_ids(first(kOp, "seq_start_positions", starts, batch),
                              first(kOp, "seq_context_lens", contexts, batch), first(kOp, "is_prefill", prefill, batch),
                              first(kOp, "input_lens", inputs, batch), total);
        }));
      },
      "seq_start_positions"_a, "seq_context_lens"_a, "is_prefill"_a, "input_lens"_a, "batch_size"_a, "total_tokens"_a,
      "int32 [total_tokens]: 0, 1, ... for the tokens of a prompt, context_len - input_len + i for the others.");
  compat.def(
      "argmax_sample",
      [](const ArrayObject& logits, IntArg batch_size, IntArg vocab_size) {
        constexpr const char* kOp = "argmax_sample";
        const Array& x = to_array(kOp, "logits", logits);
        const int64_t batch = to_int(kOp, "batch_size", batch_size), vocab = to_int(kOp, "vocab_size", vocab_size);
        return wrap(in_scope([&] {
          check_shape(kOp, "logits", x, {batch, vocab});
          return astype(argmax(x, 1), DType::int32);
        }));
      },
      "logits"_a, "batch_size"_a, "vocab_size"_a, "int32 [batch_size]: the first largest of each row.");
  compat.def(
      "check_eos",
      [](const ArrayObject& tokens, IntArg eos_token_id) {
        const Array& x = to_array("check_eos", "tokens", tokens);
        const int64_t id = to_int("check_eos", "eos_token_id", eos_token_id);
        return wrap(in_scope([&] { return astype(equal(x, id), DType::int32); }));
      },
      "tokens"_a, "eos_token_id"_a, "int32: 1 where a token is eos_token_id.");
  compat.def(
      "compute_cumsum",
      [](const ArrayObject& input) {
        const Array& x = to_array("compute_cumsum", "input", input);
        return wrap(in_scope([&] { return subtract(cumsum(x, {}, x.dtype()), x); }));
      },
      "input"_a, "The sums of the elements before each one.");
}

}  // namespace gpukit
