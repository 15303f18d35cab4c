#include "gpukit/text/added_tokens.h"

#include <algorithm>
#include <set>

#include "gpukit/text/unicode.h"
#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

constexpr size_t kMaxContent = 1024;  // the time to look for tokens is at most this much a character

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return is_word(known_point_at(text, at).value);
}

bool begins_with_word(std::string_view text) { return !text.empty() && is_word(known_point_at(text, 0).value); }

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = known_point_at(text, at);
    if (!is_space(point.value)) break;
    at += point.length;
  }
  return at;
}

/// Where the white space at the end of `text` begins.
size_t trailing_space(std::string_view text) {
  size_t begin = text.size();
  for (size_t at = begin; at > 0;) {
    --at;
    if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
    if (!is_space(known_point_at(text, at).value)) break;
    begin = at;
  }
  return begin;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const Fields& file, const Normalizer& normalizer) {
  std::vector<AddedToken> tokens;
  std::set<int32_t> ids;
  std::set<std::string_view> contents;
  const size_t count = file.list("added_tokens").size();
  tokens.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Fields item = file.item("added_tokens", i);
    AddedToken& token = tokens.emplace_back();
    token.content = item.string("content");
    token.id = item.count("id");
    token.special = item.flag_or("special", false);
    token.normalized = item.flag_or("normalized", !token.special);
    token.single_word = item.flag_or("single_word", false);
    token.left_strip = item.flag_or("lstrip", false);
    token.right_strip = item.flag_or("rstrip", false);
    if (token.content.empty() || token.content.size() > kMaxContent)
      item.fail("content", "must have 1 to " + std::to_string(kMaxContent) + " bytes");
    token.pattern = token.normalized ? normalizer.apply(token.content) : token.content;
    if (!ids.insert(token.id).second) item.fail("id", "is used twice: " + std::to_string(token.id));
    if (!contents.insert(token.content).second) item.fail("content", "is used twice: " + Json(token.content).dump());
  }
  return tokens;
}

void TokenMatcher::add(const AddedToken& token) {
  if (token.pattern.empty()) return;
  int32_t node = 0;
  for (const char c : token.pattern) {
    const auto [place, is_new] =
        nodes_[node].next.emplace(static_cast<unsigned char>(c), static_cast<int32_t>(nodes_.size()));
    node = place->second;
    if (is_new) nodes_.emplace_back();
  }
  if (nodes_[node].token >= 0) return;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

TokenMatcher::Match TokenMatcher::match_at(std::string_view text, size_t at) const {
  Match best;
  int32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto next = nodes_[node].next.find(static_cast<unsigned char>(text[i]));
    if (next == nodes_[node].next.end()) break;
    node = next->second;
    if (nodes_[node].token >= 0) best = {.token = &tokens_[nodes_[node].token], .length = i + 1 - at};
  }
  return best;
}

std::vector<Part> TokenMatcher::split(std::string_view text) const {
  std::vector<Part> parts;
  size_t done = 0;  // everything before it is in `parts`
  for (size_t at = 0; at < text.size();) {
    const auto [token, length] = match_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + length;
    at = end;
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
    if (token->left_strip) begin = std::max(trailing_space(text.substr(0, begin)), done);
    if (token->right_strip) at = end += leading_space(text.substr(end));
    if (done < begin) parts.push_back({.text = text.substr(done, begin - done)});
    parts.push_back({.text = text.substr(begin, end - begin), .id = token->id});
    done = end;
  }
  if (done < text.size()) parts.push_back({.text = text.substr(done)});
  return parts;
}

}  // namespace gpukit::text
