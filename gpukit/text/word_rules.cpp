#include "gpukit/text/word_rules.h"

#include "gpukit/text/normalizer.h"
#include "gpukit/text/utf8.h"

namespace gpukit::text {

WordRules::WordRules(const Fields& rule) {
  const std::string type = rule.string("type");
  if (type == "ByteLevel") {
    read_byte_level(rule, true);
  } else if (type == "Metaspace") {
    read_metaspace(rule);
  } else if (type == "Sequence" && rule.list("pretokenizers").size() == 2) {
    read_split(rule.item("pretokenizers", 0));
    read_byte_level(rule.item("pretokenizers", 1), false);
  } else {
    rule.unsupported("type", type);
  }
}

void WordRules::read_byte_level(const Fields& rule, bool alone) {
  if (const std::string type = rule.string("type"); type != "ByteLevel") rule.unsupported("type", type);
  const bool prefix = rule.flag_or("add_prefix_space", true);
  const bool pattern = rule.flag_or("use_regex", true);
  if (!alone && (prefix || pattern)) rule.unsupported("use_regex", "or add_prefix_space behind another splitter");
  if (alone && pattern) splitter_ = Splitter::gpt2;
  if (prefix) prefix_ = Prefix::always;
  byte_level_ = true;
}

void WordRules::read_split(const Fields& rule) {
  if (const std::string type = rule.string("type"); type != "Split") rule.unsupported("type", type);
  const std::string behavior = rule.string("behavior");
  if (behavior != "Isolated" || rule.flag_or("invert", false)) rule.unsupported("behavior", behavior);
  const Fields pattern = rule.object("pattern");
  const std::string regex = pattern.string("Regex");
  const auto splitter = splitter_of(regex);
  if (!splitter) pattern.unsupported("Regex", Json(regex).dump());
  splitter_ = *splitter;
}

void WordRules::read_metaspace(const Fields& rule) {
  space_ = rule.string("replacement");
  if (space_.empty() || known_point_at(space_, 0).length != space_.size())
    rule.fail("replacement", "must be one character");
  const std::string prefix =
      rule.string_or("prepend_scheme", rule.flag_or("add_prefix_space", true) ? "always" : "never");
  if (prefix == "always")
    prefix_ = Prefix::always;
  else if (prefix == "first")
    prefix_ = Prefix::first;
  else if (prefix != "never")
    rule.fail("prepend_scheme", "must be always, first or never");
  split_at_space_ = rule.flag_or("split", true);
}

void WordRules::split(std::string_view text, bool at_start, const std::function<void(std::string_view)>& take) const {
  std::string changed;
  if (space_ != " ") text = changed = replaced(text, " ", space_);
  const bool wanted = prefix_ == Prefix::always || (prefix_ == Prefix::first && at_start);
  if (wanted && !text.empty() && !text.starts_with(space_)) text = changed = space_ + std::string(text);
  if (split_at_space_) return split_at_mark(text, take);
  for (const std::string_view word : split_words(splitter_, text)) take(word);
}

void WordRules::split_at_mark(std::string_view text, const std::function<void(std::string_view)>& take) const {
  while (!text.empty()) {
    const size_t end = std::min(text.find(space_, 1), text.size());
    take(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace gpukit::text
