#include <algorithm>
#include <limits>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/sampling/whisper_rules_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

using namespace sampling;

template <typename T>
void mask_row(T* logits, const int32_t* text, const uint32_t* suppressed, const WhisperRulesSpace& s) {
  using namespace whisper;
  const T never = store<T>(-std::numeric_limits<float>::infinity());
  const int32_t length = text[kLength * s.texts_row];
  const Range r = range_of(s, length, text[kKinds * s.texts_row], text[kLatest * s.texts_row]);
  const uint32_t* const bits = suppressed + (length > 0 ? (s.vocab + 31) / 32 : 0);
  const auto is_suppressed = [&](int64_t i) { return (bits[i / 32] >> (i % 32) & 1u) != 0; };
  const auto vocab = static_cast<int32_t>(s.vocab);
  std::fill(logits, logits + r.text_from, never);
  std::fill(logits + r.text_to, logits + s.timestamp_begin, never);
  std::fill(logits + s.timestamp_begin, logits + std::min(r.time_from, vocab), never);
  std::fill(logits + std::max(r.time_to, s.timestamp_begin), logits + vocab, never);
  uint32_t text_top = kMinusInfinity, time_top = kMinusInfinity;
  for (int32_t i = 0; i < vocab; ++i) {
    if (is_suppressed(i)) logits[i] = never;
    uint32_t& top = i < s.timestamp_begin ? text_top : time_top;
    top = std::max(top, key_of(load(logits[i])));
  }
  if (s.timestamps == 0) return;
  // Where all times together are likelier than any text, it is one of them.
  bool only_times = time_top > text_top;
  if (!only_times && time_top > kMinusInfinity) {
    uint64_t sum = 0;
    for (int32_t i = s.timestamp_begin; i < vocab; ++i) sum += weight_of(key_of(load(logits[i])), text_top, 1.0f);
    only_times = sum > kOne;
  }
  if (only_times) std::fill(logits, logits + s.timestamp_begin, never);
}

}  // namespace

void whisper_mask(const Array& logits, const Array& texts, const Array& suppressed, const WhisperRulesSpace& space) {
  visit_floating(logits.dtype(), [&]<typename T>() {
    runtime::run_host("whisper_mask", logits.device(), {write(logits), read(texts), read(suppressed)},
                      [s = space, rows = logits.shape(0)](void* const* p) {
                        for (int64_t row = 0; row < rows; ++row)
                          mask_row(static_cast<T*>(p[0]) + row * s.logits_row, static_cast<const int32_t*>(p[1]) + row,
                                   static_cast<const uint32_t*>(p[2]), s);
                      });
  });
}

void whisper_advance(const Array& texts, const Array& tokens, const WhisperRulesSpace& space) {
  runtime::run_host("whisper_advance", texts.device(), {write(texts), read(tokens)},
                    [s = space, rows = tokens.size()](void* const* p) {
                      for (int64_t row = 0; row < rows; ++row)
                        whisper::advance(s, static_cast<int32_t*>(p[0]) + row, static_cast<const int32_t*>(p[1])[row]);
                    });
}

}  // namespace gpukit::cpu
