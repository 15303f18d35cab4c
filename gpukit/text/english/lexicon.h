// Pronunciation lexicons: JSON objects of words and phonemes, or of words and phonemes by part of speech.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpukit::text::english {

/// Part of speech, as far as a pronunciation hangs on it. past: VBD; participle: VBN; present: VBP.
enum class Tag { other, noun, verb, adjective, adverb, past, participle, present, determiner };

/// The phonemes of a word, or that it is to be spelled.
struct Entry {
  std::u32string phonemes;
  bool spell = false;
};

class Lexicon {
 public:
  Lexicon() = default;  // of no words
  /// `gold` is asked before `silver`; either may be empty. Throws FileError, and FormatError naming the file for
  /// what is no lexicon.
  static Lexicon open(const std::string& gold, const std::string& silver);

  bool empty() const { return words_.empty() && tagged_.empty(); }
  bool contains(std::u32string_view word) const { return find(word, Tag::other, false).has_value(); }
  /// A lower-case key of two letters or more also serves its capitalised form, and the reverse.
  std::optional<Entry> find(std::u32string_view word, Tag tag, bool at_pause) const;

 private:
  using Choices = std::vector<std::pair<std::string, std::optional<std::string>>>;
  void add(const std::string& path);
  std::optional<Entry> find_key(const std::string& key, Tag tag, bool at_pause) const;

  std::unordered_map<std::string, std::string> words_;
  std::unordered_map<std::string, Choices> tagged_;
};

/// Paths of lexicons; empty for none.
struct LexiconPaths {
  std::string gold, silver;
};

/// us_gold.json and us_silver.json in `folder`, or where that is empty in the folder `model` of a voice, in its folder
/// `lexicons`, or in kokoro-g2p-misaki beside it. Throws NotFoundError where `folder` is given and has neither.
LexiconPaths find_lexicons(const std::string& model, const std::string& folder);

}  // namespace gpukit::text::english
