// What Whisper may say next, as masks on its logits, and the state of a text that they follow from, all on the device:
// a token is chosen and read by one graph. Choose between the two with sample().
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

struct WhisperRules {
  int64_t end_of_text = 0, no_timestamps = 0, timestamp_begin = 0;
  int64_t max_initial_timestamp = 50;  // the latest time a text may begin with, in steps
  bool timestamps = true;              // times by the model's rules; false: the suppressed tokens alone
  bool operator==(const WhisperRules&) const = default;
};

/// Rows of `texts`, int32 [kNumTextFields, rows]: the token to be read, where it stands, its sequence (-1: none) and
/// window, tokens since the prompt, which of the last two of them are times (bit 0: the last; a fresh text has bit 0),
/// the latest time or -1, and how many tokens there may be with the prompt.
inline constexpr int64_t kNumTextFields = 8;

/// Sets `logits` [rows, vocab], float16, bfloat16 or float32, to -inf where a token may not come next. `suppressed` is
/// int32 [2, ceil(vocab / 32)], bit i % 32 of word i / 32 for token i: before the first token of a text, and after.
/// Where all times together are likelier than any other token, it must be one of them. Nothing is allocated. Throws
/// ShapeError, DTypeError, DeviceError, ArgumentError.
void whisper_mask(const Array& logits, const Array& texts, const Array& suppressed, const WhisperRules& rules);

/// Makes the chosen `tokens`, int32 [rows], those to be read next. A text that ends or is full is no sequence any
/// more, and stays as it is. Throws as whisper_mask.
void whisper_advance(const Array& texts, const Array& tokens, const WhisperRules& rules);

}  // namespace gpukit
