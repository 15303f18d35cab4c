// Which tokens Whisper may say next. Shared by host and kernels.
#pragma once
#include "gpukit/ops/sampling/sampling_step.cuh"

namespace gpukit {

struct WhisperRulesSpace {
  int64_t vocab, logits_row;
  int64_t texts_row;  // elements from one field of the texts to the next
  int32_t end_of_text, no_timestamps, timestamp_begin;
  int32_t max_initial_timestamp;
  int32_t timestamps;  // 0: no rules of times
};

namespace whisper {

inline constexpr int kThreads = 1024;

/// Fields of a text, each a row of int32.
enum Field { kId, kPosition, kSequence, kWindow, kLength, kKinds, kLatest, kLimit, kFields };

/// Of the two tokens before the next one: which are times. A text that has just begun counts as after one.
inline constexpr int32_t kLastIsTime = 1, kBeforeLastIsTime = 2, kFresh = kLastIsTime;

/// Tokens [text_from, text_to) and [time_from, time_to) may be said, as far as they are not suppressed.
struct Range {
  int32_t text_from, text_to, time_from, time_to;
};

GPUKIT_DEVICE Range range_of(const WhisperRulesSpace& s, int32_t length, int32_t kinds, int32_t latest) {
  const auto vocab = static_cast<int32_t>(s.vocab);
  if (s.timestamps == 0) return {0, s.timestamp_begin, s.timestamp_begin, vocab};
  Range r{0, s.no_timestamps, s.timestamp_begin, vocab};
  if (length == 0) {
    r.text_from = r.text_to;
    if (s.max_initial_timestamp < vocab - r.time_from) r.time_to = r.time_from + s.max_initial_timestamp + 1;
    return r;
  }
  const bool last = (kinds & kLastIsTime) != 0, before_last = (kinds & kBeforeLastIsTime) != 0;
  // They come in pairs, but for the one that ends the text.
  if (last && before_last) r.time_from = vocab;
  if (last && !before_last) r.text_from = s.end_of_text;
  // They do not go back, and no segment is empty.
  if (latest < 0) return r;
  const int32_t known = latest < vocab ? latest : vocab - 1;
  const int32_t least = known + (last && !before_last ? 0 : 1);
  if (r.time_from < least) r.time_from = least;
  return r;
}

/// What a chosen token makes of a text. A text that ends, by its end token, for want of room or because nothing could
/// be chosen, is no sequence any more.
GPUKIT_DEVICE void advance(const WhisperRulesSpace& s, int32_t* text, int32_t token) {
  const auto field = [&](Field f) -> int32_t& { return text[f * s.texts_row]; };
  if (field(kSequence) < 0) return;
  const int32_t limit = field(kLimit);
  if (token < 0 || token == s.end_of_text || field(kPosition) >= limit) {
    field(kSequence) = field(kWindow) = -1;
    return;
  }
  const int32_t position = field(kPosition) + 1;
  field(kId) = token;
  field(kPosition) = position;
  field(kLength) = static_cast<int32_t>(static_cast<uint32_t>(field(kLength)) + 1u);
  const bool is_time = token >= s.timestamp_begin;
  field(kKinds) = (field(kKinds) & kLastIsTime) * kBeforeLastIsTime | (is_time ? kLastIsTime : 0);
  if (is_time) field(kLatest) = token;
  if (position >= limit - 1) field(kSequence) = field(kWindow) = -1;
}

}  // namespace whisper
}  // namespace gpukit
