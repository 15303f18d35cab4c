#include "gpukit/text/normalizer.h"

#include "gpukit/base/error.h"
#include "gpukit/text/nfc.h"

namespace gpukit::text {
namespace {

constexpr size_t kMaxSteps = 16, kMaxContent = 64, kMaxGrowth = 16;

std::string content_of(const Fields& step, std::string_view name) {
  std::string content = step.string(name);
  if (content.size() > kMaxContent) step.fail(name, "must have at most " + std::to_string(kMaxContent) + " bytes");
  return content;
}

}  // namespace

std::string replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const size_t found = text.find(pattern);
    out += text.substr(0, found);
    if (found == std::string_view::npos) return out;
    out += content;
    text.remove_prefix(found + pattern.size());
  }
}

std::string replaced_pattern(const Fields& replace) {
  const Fields pattern = replace.object("pattern");
  if (pattern.find("Regex") != nullptr) replace.unsupported("pattern", "Regex " + Json(pattern.string("Regex")).dump());
  std::string text = pattern.string("String");
  if (text.empty()) pattern.fail("String", "must not be empty");
  return text;
}

void Normalizer::read(const Fields& normalizer) {
  const std::string type = normalizer.string("type");
  if (type == "Sequence") {
    for (size_t i = 0; i < normalizer.list("normalizers").size(); ++i) read(normalizer.item("normalizers", i));
  } else if (type == "NFC") {
    steps_.push_back({.kind = Step::Kind::nfc});
  } else if (type == "Prepend") {
    steps_.push_back({.kind = Step::Kind::prepend, .content = content_of(normalizer, "prepend")});
  } else if (type == "Replace") {
    steps_.push_back({.kind = Step::Kind::replace,
                      .pattern = replaced_pattern(normalizer),
                      .content = content_of(normalizer, "content")});
  } else {
    normalizer.unsupported("type", type);
  }
  if (steps_.size() > kMaxSteps) normalizer.fail("", "must have at most " + std::to_string(kMaxSteps) + " steps");
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::nfc: out = nfc(out); break;
      case Step::Kind::prepend:
        if (!out.empty()) out.insert(0, step.content);
        break;
      case Step::Kind::replace: out = replaced(out, step.pattern, step.content); break;
    }
    if (out.size() > kMaxGrowth * text.size() + kMaxContent * kMaxSteps)
      throw ArgumentError("Tokenizer.encode", "text", "grow to at most 16 times of its bytes when normalised",
                          std::to_string(out.size()) + " bytes of " + std::to_string(text.size()));
  }
  return out;
}

}  // namespace gpukit::text
