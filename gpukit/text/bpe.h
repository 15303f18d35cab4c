// Byte-pair encoding: a vocabulary, and pairs of tokens that become one, the first of the list first.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpukit/text/fields.h"

namespace gpukit::text {

class Bpe {
 public:
  /// `model` is the member of that name of a tokenizer.json. With `byte_level` words are bytes in the spelling of
  /// byte_level.h, else characters. Throws FormatError, and UnsupportedError for other models.
  Bpe(const Fields& model, bool byte_level);

  /// Appends the ids of one word, UTF-8 or any bytes with `byte_level`. n characters take n log n steps.
  /// Throws ArgumentError for a character that has no token where the vocabulary has none for unknown ones.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

  std::optional<int32_t> find(std::string_view token) const;
  /// Null for an id that is not of this vocabulary.
  const std::string* token(int32_t id) const;
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  struct Merge {
    int32_t rank, id;
  };
  struct Symbol {
    int32_t id = -1, previous = -1, next = -1;  // -1: none. A symbol merged into the one before it has no id
  };
  struct Candidate {
    int32_t rank, at, id;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  void read_vocabulary(const Fields& model);
  void read_merges(const Fields& model);
  void read_bytes(const Fields& model, bool byte_level);
  void compute(std::string_view word, std::vector<int32_t>& ids) const;
  void append_bytes(std::string_view word, std::vector<Symbol>& symbols) const;
  void append_characters(std::string_view word, std::vector<Symbol>& symbols) const;
  bool append_fallback(std::string_view character, std::vector<Symbol>& symbols) const;
  void merge(std::vector<Symbol>& symbols) const;
  const Merge* find_merge(int32_t left, int32_t right) const;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;      // views of tokens_
  std::unordered_map<int32_t, const std::string*> by_id_;  // into tokens_
  std::unordered_map<uint64_t, Merge> merges_;             // by left << 32 | right
  std::array<int32_t, 256> bytes_;                         // of single bytes; -1: none
  std::optional<int32_t> unknown_;
  bool byte_level_ = false, byte_fallback_ = false, fuse_unknown_ = false, whole_words_ = false;

  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> cache_;
};

}  // namespace gpukit::text
