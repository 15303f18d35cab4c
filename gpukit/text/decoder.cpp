#include "gpukit/text/decoder.h"

#include <charconv>

#include "gpukit/text/byte_level.h"
#include "gpukit/text/normalizer.h"
#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

/// The byte of a token such as <0x0A>; -1 for any other.
int fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int byte = 0;
  const char* end = token.data() + 5;
  const auto [stopped, error] = std::from_chars(token.data() + 3, end, byte, 16);
  return error == std::errc() && stopped == end && byte >= 0 ? byte : -1;
}

}  // namespace

Decoder::Decoder(const Fields& decoder) {
  const std::string type = decoder.string("type");
  if (type == "ByteLevel") {
    kind_ = Kind::byte_level;
  } else if (type == "Metaspace") {
    read_metaspace(decoder);
  } else if (type == "Sequence") {
    for (size_t i = 0; i < decoder.list("decoders").size(); ++i) read_step(decoder.item("decoders", i));
  } else {
    decoder.unsupported("type", type);
  }
}

void Decoder::read_metaspace(const Fields& step) {
  const std::string mark = step.string("replacement");
  if (mark.empty()) step.fail("replacement", "must not be empty");
  const bool prefix =
      step.string_or("prepend_scheme", step.flag_or("add_prefix_space", true) ? "always" : "never") != "never";
  if (prefix) mark_ = mark;
  replacements_.emplace_back(mark, " ");
}

void Decoder::read_step(const Fields& step) {
  const std::string type = step.string("type");
  // Each step looks at what the one before it made of all tokens; only in this order can they be taken one by one.
  if (type == "Replace" && !byte_fallback_ && !fuse_) {
    replacements_.emplace_back(replaced_pattern(step), step.string("content"));
  } else if (type == "ByteFallback" && !fuse_) {
    byte_fallback_ = true;
  } else if (type == "Fuse") {
    fuse_ = true;
  } else if (type == "Strip" && fuse_ && strip_.empty() && step.count("stop") == 0) {
    strip_ = step.string("content");
    if (strip_.empty() || known_point_at(strip_, 0).length != strip_.size())
      step.fail("content", "must be one character");
    strip_count_ = static_cast<size_t>(step.count("start"));
  } else {
    step.unsupported("type", type + " at this place");
  }
}

void Decoder::take(State& state, std::string_view token, std::string& out) const {
  if (kind_ == Kind::byte_level) {
    const auto bytes = bytes_of(token);
    return take_bytes(state, bytes ? std::string_view(*bytes) : token, out);
  }
  std::string text(token);
  if (!mark_.empty() && !state.begun) text = replaced(text, mark_, "");
  state.begun = true;
  for (const auto& [pattern, content] : replacements_) text = replaced(text, pattern, content);
  const int byte = byte_fallback_ ? fallback_byte(text) : -1;
  if (byte >= 0) return take_fallback(state, static_cast<char>(byte), out);
  finish(state, out);
  emit(state, text, out);
}

void Decoder::take_bytes(State& state, std::string_view bytes, std::string& out) const {
  state.bytes += bytes;
  state.bytes.erase(0, append_lossy(out, state.bytes, true));
}

void Decoder::take_fallback(State& state, char byte, std::string& out) const {
  state.bytes += byte;
  // What is no character with four bytes never becomes one.
  if (state.whole || state.bytes.size() > 4 || valid_prefix(state.bytes) != state.bytes.size()) return;
  emit(state, state.bytes, out);
  state.bytes.clear();
}

void Decoder::finish(State& state, std::string& out) const {
  const std::string bytes = std::exchange(state.bytes, {});
  if (kind_ == Kind::byte_level) {
    append_lossy(out, bytes, false);
  } else if (valid_prefix(bytes) == bytes.size()) {
    emit(state, bytes, out);
  } else {
    for (size_t i = 0; i < bytes.size(); ++i) emit(state, kReplacement, out);
  }
}

void Decoder::emit(State& state, std::string_view text, std::string& out) const {
  while (!state.past_strip && !text.empty()) {
    if (state.stripped < strip_count_ && text.starts_with(strip_)) {
      text.remove_prefix(strip_.size());
      ++state.stripped;
    } else {
      state.past_strip = true;
    }
  }
  out += text;
}

}  // namespace gpukit::text
