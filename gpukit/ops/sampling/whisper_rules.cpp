#include "gpukit/ops/sampling/whisper_rules.h"

#include <string>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/sampling/whisper_rules_impl.h"

namespace gpukit {
namespace {

static_assert(whisper::kFields == kNumTextFields);

void check_place(const char* op, const char* argument, const Array& x, const Array& texts) {
  if (!(x.device() == texts.device()))
    throw DeviceError(std::string(op) + ": " + argument + " is on " + str(x.device()) + ", texts is on " +
                      str(texts.device()) + "; move one with x.to(device)");
}

void check_texts(const char* op, const Array& texts) {
  check_dtype(op, "texts", texts, DType::int32);
  if (texts.ndim() != 2 || texts.shape(0) != kNumTextFields || (texts.shape(1) > 1 && texts.strides()[1] != 1))
    throw ShapeError(op, "texts", "be [" + std::to_string(kNumTextFields) + ", rows] with rows side by side",
                     texts.shape().str());
}

WhisperRulesSpace space_of(const char* op, const Array& texts, const WhisperRules& r, int64_t vocab) {
  if (r.end_of_text < 0 || r.no_timestamps < r.end_of_text || r.timestamp_begin < r.no_timestamps ||
      r.timestamp_begin > vocab || r.max_initial_timestamp < 0)
    throw ArgumentError(op, "rules", "name tokens of the vocabulary in their order", std::to_string(r.timestamp_begin));
  WhisperRulesSpace s{};
  s.vocab = vocab;
  s.texts_row = texts.strides()[0];
  s.end_of_text = static_cast<int32_t>(r.end_of_text);
  s.no_timestamps = static_cast<int32_t>(r.no_timestamps);
  s.timestamp_begin = static_cast<int32_t>(r.timestamp_begin);
  s.max_initial_timestamp = static_cast<int32_t>(r.max_initial_timestamp < vocab ? r.max_initial_timestamp : vocab);
  s.timestamps = r.timestamps ? 1 : 0;
  return s;
}

}  // namespace

void whisper_mask(const Array& logits, const Array& texts, const Array& suppressed, const WhisperRules& rules) {
  constexpr const char* kOp = "whisper_mask";
  check_texts(kOp, texts);
  if (logits.dtype() != DType::float16 && logits.dtype() != DType::bfloat16 && logits.dtype() != DType::float32)
    unsupported_dtype(kOp, "logits", logits.dtype(), "have dtype float16, bfloat16 or float32");
  if (logits.ndim() != 2 || logits.shape(0) != texts.shape(1) || logits.shape(1) < 1 ||
      logits.shape(1) > sampling::kMaxVocab || (logits.shape(1) > 1 && logits.strides()[1] != 1))
    throw ShapeError(kOp, "logits", "be [rows, vocab] with a row for each text and dense rows", logits.shape().str());
  check_dtype(kOp, "suppressed", suppressed, DType::int32);
  check_shape(kOp, "suppressed", suppressed, {2, (logits.shape(1) + 31) / 32});
  if (!suppressed.is_contiguous()) throw ShapeError(kOp, "suppressed", "be contiguous", suppressed.shape().str());
  check_place(kOp, "logits", logits, texts);
  check_place(kOp, "suppressed", suppressed, texts);
  WhisperRulesSpace space = space_of(kOp, texts, rules, logits.shape(1));
  space.logits_row = logits.strides()[0];
  if (logits.size() == 0) return;
  switch (logits.device().kind) {
    case DeviceKind::cpu: return cpu::whisper_mask(logits, texts, suppressed, space);
    case DeviceKind::cuda: return cuda::whisper_mask(logits, texts, suppressed, space);
  }
}

void whisper_advance(const Array& texts, const Array& tokens, const WhisperRules& rules) {
  constexpr const char* kOp = "whisper_advance";
  check_texts(kOp, texts);
  check_dtype(kOp, "tokens", tokens, DType::int32);
  check_shape(kOp, "tokens", tokens, {texts.shape(1)});
  if (!tokens.is_contiguous()) throw ShapeError(kOp, "tokens", "be contiguous", tokens.shape().str());
  check_place(kOp, "tokens", tokens, texts);
  const WhisperRulesSpace space = space_of(kOp, texts, rules, sampling::kMaxVocab);
  if (tokens.size() == 0) return;
  switch (texts.device().kind) {
    case DeviceKind::cpu: return cpu::whisper_advance(texts, tokens, space);
    case DeviceKind::cuda: return cuda::whisper_advance(texts, tokens, space);
  }
}

}  // namespace gpukit
