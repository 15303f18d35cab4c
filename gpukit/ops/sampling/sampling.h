// Tokens drawn from rows of logits, with everything a row needs in device memory.
//
// The order of steps for a row, each of which is left out where it is off:
//   1. penalties over the row's history: l > 0 ? l / repetition : l * repetition for a token that occurs in it, then
//      l - frequency * count - presence for one that occurs after the prompt;
//   2. tokens that are not allowed become -inf;
//   3. logit bias is added; what is -inf stays so;
//   4. here log-probabilities are taken (temperature 1, nothing cut off);
//   5. temperature; 6. top k; 7. top p of what is left; 8. min p: a probability of at least min_p times the largest;
//   9. the draw, in proportion to what is left. With a temperature below 1e-6, or NaN, the largest logit is taken.
// Among equal logits the lowest index is the larger one: greedy, top k, top p and the top n keep it.
//
// A row's token depends on its own logits, numbers and (seed, position) alone, and is the same on every device:
// probabilities are whole multiples of 2^-40 of the largest, whose sums have no order. A token less likely than that,
// beside the likeliest, is never drawn. Rows of equal logits draw evenly; +inf shares the draw with +inf alone. A row
// that has NaN where it is allowed, or nothing that is allowed and above -inf, gives token -1 and log-probability NaN.
#pragma once

#include <cstdint>
#include <optional>

#include "gpukit/array/array.h"
#include "gpukit/ops/random/random.h"

namespace gpukit {

/// One number for all rows, or an array [rows] with one for each, read on the device: a graph replays with new ones.
template <typename T>
struct PerRow {
  PerRow() = default;
  PerRow(T number) : value(number) {}
  PerRow(const Array& numbers) : rows(numbers) {}
  T value{};
  Array rows;
};

struct SamplingParams {
  PerRow<float> temperature = 1.0f;  // arrays: float32
  PerRow<int32_t> top_k = 0;         // int32; off below 1 and from vocab on
  PerRow<float> top_p = 1.0f;        // float32; the token that crosses p stays; off from 1 on
  PerRow<float> min_p = 0.0f;        // float32

  PerRow<float> repetition = 1.0f, frequency = 0.0f, presence = 0.0f;  // float32
  Array history;          // int32 [rows, n]: token ids; negative ones are passed over
  Array history_lengths;  // int32 [rows]: how many of them count; undefined: all
  Array prompt_lengths;   // int32 [rows]: so many of these are the prompt's; undefined: none

  Array bias_ids;     // int32 [rows, n]: tokens; negative ones are passed over
  Array bias_values;  // float32 [rows, n]; a token that is named twice gets both
  Array allowed;      // bool [rows, vocab], or int32 or uint32 [rows, ceil(vocab / 32)] with bit i % 32 of word i / 32
                      // for token i; without the first axis it is one for all rows

  /// uint64. One number for all rows: row i draws block i of it. Not given: the next state of sampling_generator(),
  /// unless `uniform` is or all is greedy.
  std::optional<PerRow<uint64_t>> seed = {};
  PerRow<int64_t> position = int64_t{0};  // arrays: int32; with one seed each position draws another number
  Array uniform;                          // float32 [rows] in [0, 1): takes the place of the draw by seed and position
};

/// Written beside the tokens; what is not defined() is not computed.
struct SamplingReport {
  Array logprobs;               // float32 [rows]: of the chosen token
  Array top_ids, top_logprobs;  // int32, float32 [rows, n], n <= 256: the n likeliest, likeliest first
};

/// A token for each row of `logits`, float16, bfloat16 or float32 [rows, vocab] (or [vocab]): int32 [rows] (or []). A
/// token id of history or bias from vocab on is a bad index: it is skipped and the next wait raises OutOfRangeError.
/// Nothing waits; with `out` nothing is allocated. Throws ShapeError, DTypeError, DeviceError, ArgumentError.
Array sample(const Array& logits, const SamplingParams& params, const Array* out = nullptr,
             const SamplingReport& report = {});

/// Draws for calls without a seed. Starts with seed 0.
random::Generator& sampling_generator();

}  // namespace gpukit
