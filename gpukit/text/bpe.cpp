#include "gpukit/text/bpe.h"

#include <queue>

#include "gpukit/base/error.h"
#include "gpukit/text/byte_level.h"
#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

constexpr size_t kMaxCachedWords = 16384, kMaxCachedBytes = 64;

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

/// `left right` or ["left", "right"].
std::pair<std::string_view, std::string_view> sides_of(const Json& merge) {
  if (merge.is_string()) {
    const std::string_view text = merge.as_string();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return {};
    return {text.substr(0, space), text.substr(space + 1)};
  }
  if (!merge.is_list() || merge.items().size() != 2) return {};
  const Json& left = merge.items()[0];
  const Json& right = merge.items()[1];
  if (!left.is_string() || !right.is_string()) return {};
  return {left.as_string(), right.as_string()};
}

}  // namespace

Bpe::Bpe(const Fields& model, bool byte_level) : byte_level_(byte_level) {
  if (const std::string type = model.string_or("type", "BPE"); type != "BPE") model.unsupported("type", type);
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const std::string text = model.string_or(name, ""); !text.empty()) model.unsupported(name, text);
  if (const Json* dropout = model.find("dropout"); dropout != nullptr && !(*dropout == Json(0.0)))
    model.unsupported("dropout", dropout->dump());
  byte_fallback_ = model.flag_or("byte_fallback", false);
  fuse_unknown_ = model.flag_or("fuse_unk", false);
  whole_words_ = model.flag_or("ignore_merges", false);
  read_vocabulary(model);
  read_merges(model);
  read_bytes(model, byte_level);
  if (const std::string name = model.string_or("unk_token", ""); !name.empty()) {
    unknown_ = find(name);
    if (!unknown_) model.fail("unk_token", "is not in the vocabulary");
  }
}

void Bpe::read_vocabulary(const Fields& model) {
  const Fields vocabulary = model.object("vocab");
  const Json::Members& members = vocabulary.members();
  tokens_.reserve(members.size());
  ids_.reserve(members.size());
  by_id_.reserve(members.size());
  for (const auto& [token, id] : members) {
    if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() > INT32_MAX)
      model.fail("vocab", "has an id that is no whole number from 0 to 2147483647, of " + Json(token).dump());
    const int32_t number = static_cast<int32_t>(id.as_integer());
    ids_.emplace(tokens_.emplace_back(token), number);
    if (!by_id_.emplace(number, &tokens_.back()).second)
      model.fail("vocab", "has two tokens of the id " + std::to_string(number));
  }
}

void Bpe::read_merges(const Fields& model) {
  const Json::List& merges = model.list("merges");
  if (merges.size() > INT32_MAX) model.fail("merges", "is too long");
  merges_.reserve(merges.size());
  std::string whole;
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto [left, right] = sides_of(merges[i]);
    const std::string place = "merges[" + std::to_string(i) + "]";
    if (left.empty() || right.empty()) model.fail(place, "must be two tokens");
    const auto left_id = find(left), right_id = find(right), id = find(whole.assign(left).append(right));
    if (!left_id || !right_id || !id) model.fail(place, "is of a token that the vocabulary has not");
    merges_.insert_or_assign(key_of(*left_id, *right_id), Merge{.rank = static_cast<int32_t>(i), .id = *id});
  }
}

void Bpe::read_bytes(const Fields& model, bool byte_level) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string code = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    bytes_[byte] = find(byte_level ? spelling_of(static_cast<unsigned char>(byte)) : code).value_or(-1);
  }
  if (byte_level && byte_fallback_) model.unsupported("byte_fallback", "beside a byte-level splitter");
}

std::optional<int32_t> Bpe::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Bpe::token(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const bool cached = word.size() <= kMaxCachedBytes;
  if (cached) {
    const std::lock_guard lock(mutex_);
    if (const auto found = cache_.find(word); found != cache_.end()) {
      ids.insert(ids.end(), found->second.begin(), found->second.end());
      return;
    }
  }
  const size_t begin = ids.size();
  compute(word, ids);
  if (cached) {
    const std::lock_guard lock(mutex_);
    if (cache_.size() < kMaxCachedWords)
      cache_.emplace(word, std::vector<int32_t>(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end()));
  }
}

void Bpe::compute(std::string_view word, std::vector<int32_t>& ids) const {
  if (whole_words_) {
    const auto whole = byte_level_ ? find(spell_bytes(word)) : find(word);
    if (whole) return ids.push_back(*whole);
  }
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  if (byte_level_)
    append_bytes(word, symbols);
  else
    append_characters(word, symbols);
  merge(symbols);
  for (const Symbol& symbol : symbols)
    if (symbol.id >= 0) ids.push_back(symbol.id);
}

void Bpe::append_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
  bool after_unknown = false;
  for (const char c : word) {
    int32_t id = bytes_[static_cast<unsigned char>(c)];
    const bool unknown = id < 0;
    if (unknown) {
      if (!unknown_)
        throw ArgumentError("Tokenizer.encode", "text", "hold only bytes that have tokens", Json(word).dump());
      id = *unknown_;
    }
    if (!(unknown && after_unknown && fuse_unknown_)) symbols.push_back({.id = id});
    after_unknown = unknown;
  }
}

bool Bpe::append_fallback(std::string_view character, std::vector<Symbol>& symbols) const {
  if (!byte_fallback_) return false;
  for (const char c : character)
    if (bytes_[static_cast<unsigned char>(c)] < 0) return false;
  for (const char c : character) symbols.push_back({.id = bytes_[static_cast<unsigned char>(c)]});
  return true;
}

void Bpe::append_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  bool after_unknown = false;
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, known_point_at(word, at).length);
    at += character.size();
    const auto id = find(character);
    const bool unknown = !id && !append_fallback(character, symbols);
    if (id) symbols.push_back({.id = *id});
    if (unknown) {
      if (!unknown_)
        throw ArgumentError("Tokenizer.encode", "text", "hold only characters that have tokens",
                            Json(character).dump());
      if (!(after_unknown && fuse_unknown_)) symbols.push_back({.id = *unknown_});
    }
    after_unknown = unknown;
  }
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::merge(std::vector<Symbol>& symbols) const {
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](int32_t at) {
    if (at < 0 || symbols[at].next < 0) return;
    if (const Merge* found = find_merge(symbols[at].id, symbols[symbols[at].next].id); found != nullptr)
      queue.push({.rank = found->rank, .at = at, .id = found->id});
  };
  const int32_t count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.at];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    // What was merged since leaves candidates behind that no longer hold.
    const Merge* found = find_merge(left.id, right.id);
    if (found == nullptr || found->id != best.id) continue;
    left.id = best.id;
    left.next = right.next;
    if (right.next >= 0) symbols[right.next].previous = best.at;
    right.id = -1;
    consider(left.previous);
    consider(best.at);
  }
}

}  // namespace gpukit::text
