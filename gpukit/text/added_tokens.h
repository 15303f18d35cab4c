// Tokens beside the model's own: found in the text as they are, before it is cut into words.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpukit/text/fields.h"
#include "gpukit/text/normalizer.h"

namespace gpukit::text {

struct AddedToken {
  std::string content;
  std::string pattern;  // what is looked for, and decoded: the content, normalised where that is asked for
  int32_t id = 0;
  bool special = false;                          // left out of decoded text where that is asked for
  bool normalized = false;                       // looked for in normalised text
  bool single_word = false;                      // only where no word goes on at either side
  bool left_strip = false, right_strip = false;  // takes the white space there with it
};

/// Reads `added_tokens` of a tokenizer.json. Throws FormatError.
std::vector<AddedToken> read_added_tokens(const Fields& file, const Normalizer& normalizer);

/// A part of a text: an added token, or text between two.
struct Part {
  std::string_view text;
  int32_t id = -1;  // -1: text
};

/// Finds tokens: the leftmost first, of those that begin at one place the longest.
class TokenMatcher {
 public:
  /// Of equal patterns the first counts.
  void add(const AddedToken& token);
  /// The parts of `text`, none of them empty.
  std::vector<Part> split(std::string_view text) const;

 private:
  struct Node {
    std::map<unsigned char, int32_t> next;
    int32_t token = -1;  // that ends here, in tokens_
  };
  struct Match {
    const AddedToken* token = nullptr;
    size_t length = 0;
  };
  Match match_at(std::string_view text, size_t at) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<AddedToken> tokens_;
};

}  // namespace gpukit::text
