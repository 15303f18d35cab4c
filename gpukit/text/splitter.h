// How byte-level tokenizers cut text into words before they merge: the patterns of three families, by hand.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace gpukit::text {

enum class Splitter {
  none,    // one word
  gpt2,    // contractions, then runs of letters, numbers or others with one space before them
  qwen2,   // contractions in any case, letters with any one sign before them, single digits, lines apart
  llama3,  // the same with up to three digits together
};

/// The splitter of a regular expression in a tokenizer.json; nullopt for one that is not known.
std::optional<Splitter> splitter_of(std::string_view pattern);

/// The words of `text`, in order and without gaps. `text` must be UTF-8.
std::vector<std::string_view> split_words(Splitter splitter, std::string_view text);

}  // namespace gpukit::text
