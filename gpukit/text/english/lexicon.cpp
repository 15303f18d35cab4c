#include "gpukit/text/english/lexicon.h"

#include <algorithm>
#include <span>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/json.h"
#include "gpukit/text/english/letters.h"

namespace gpukit::text::english {
namespace {

/// The keys of an object entry in the order they are asked for.
std::span<const std::string_view> keys_of(Tag tag) {
  static constexpr std::string_view kNoun[] = {"NOUN"}, kVerb[] = {"VERB"}, kAdjective[] = {"ADJ", "NOUN"},
                                    kAdverb[] = {"ADV"}, kPast[] = {"VBD", "VERB"},
                                    kParticiple[] = {"VBN", "ADJ", "VERB"}, kPresent[] = {"VBP", "VERB"},
                                    kDeterminer[] = {"DT"};
  switch (tag) {
    case Tag::noun: return kNoun;
    case Tag::verb: return kVerb;
    case Tag::adjective: return kAdjective;
    case Tag::adverb: return kAdverb;
    case Tag::past: return kPast;
    case Tag::participle: return kParticiple;
    case Tag::present: return kPresent;
    case Tag::determiner: return kDeterminer;
    case Tag::other: break;
  }
  return {};
}

}  // namespace

Lexicon Lexicon::open(const std::string& gold, const std::string& silver) {
  Lexicon lexicon;
  if (!gold.empty()) lexicon.add(gold);
  if (!silver.empty()) lexicon.add(silver);
  return lexicon;
}

void Lexicon::add(const std::string& path) {
  const auto bad = [&](const std::string& why) { return FormatError("lexicon " + path + ": " + why); };
  Json json;
  try {
    json = Json::parse(files::read_file(path));
  } catch (const FormatError& error) {
    throw bad(error.what());
  }
  if (!json.is_object()) throw bad("not an object of words");
  for (auto& [word, value] : json.members()) {
    if (words_.contains(word) || tagged_.contains(word)) continue;
    if (value.is_string()) {
      words_.emplace(word, value.as_string());
    } else if (value.is_object()) {
      Choices choices;
      for (const auto& [tag, phonemes] : value.members()) {
        if (!phonemes.is_null() && !phonemes.is_string()) throw bad("the entry of '" + word + "' has no phonemes");
        choices.emplace_back(tag, phonemes.is_null() ? std::nullopt : std::optional(phonemes.as_string()));
      }
      tagged_.emplace(word, std::move(choices));
    } else {
      throw bad("the entry of '" + word + "' has no phonemes");
    }
  }
}

std::optional<Entry> Lexicon::find_key(const std::string& key, Tag tag, bool at_pause) const {
  if (const auto plain = words_.find(key); plain != words_.end()) return Entry{decode_utf8(plain->second)};
  const auto found = tagged_.find(key);
  if (found == tagged_.end()) return std::nullopt;
  const Choices& choices = found->second;
  const auto choice = [&](std::string_view name) -> const std::optional<std::string>* {
    const auto at = std::find_if(choices.begin(), choices.end(), [&](const auto& c) { return c.first == name; });
    return at == choices.end() ? nullptr : &at->second;
  };
  const std::optional<std::string>* value = at_pause ? choice("None") : nullptr;
  for (const std::string_view name : keys_of(tag))
    if (value == nullptr) value = choice(name);
  if (value == nullptr) value = choice("DEFAULT");
  if (value == nullptr) return std::nullopt;
  return value->has_value() ? Entry{decode_utf8(**value)} : Entry{{}, true};
}

std::optional<Entry> Lexicon::find(std::u32string_view word, Tag tag, bool at_pause) const {
  if (word.empty()) return std::nullopt;
  if (auto entry = find_key(encode_utf8(word), tag, at_pause)) return entry;
  if (word.size() < 2) return std::nullopt;
  const std::u32string rest(word.substr(1));
  if (rest != lower(rest)) return std::nullopt;
  const char32_t other = is_upper(word[0]) ? to_lower(word[0]) : to_upper(word[0]);
  return find_key(encode_utf8(std::u32string(1, other) + rest), tag, at_pause);
}

LexiconPaths find_lexicons(const std::string& model, const std::string& folder) {
  const auto in = [](const std::string& place) {
    const auto path = [&](const char* name) {
      std::string file = files::join(place, name);
      return files::is_file(file) ? file : std::string();
    };
    return LexiconPaths{path("us_gold.json"), path("us_silver.json")};
  };
  if (!folder.empty()) {
    const LexiconPaths found = in(folder);
    if (found.gold.empty() && found.silver.empty())
      throw NotFoundError("no us_gold.json or us_silver.json in " + folder);
    return found;
  }
  if (model.empty()) return {};
  for (const std::string& place :
       {model, files::join(model, "lexicons"), files::join(files::join(model, ".."), "kokoro-g2p-misaki")}) {
    LexiconPaths found = in(place);
    if (!found.gold.empty() || !found.silver.empty()) return found;
  }
  return {};
}

}  // namespace gpukit::text::english
