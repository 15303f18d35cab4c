#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

unsigned char byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

}  // namespace

CodePoint code_point_at(std::string_view text, size_t at) {
  const unsigned char lead = byte_at(text, at);
  if (lead < 0x80) return {.value = lead, .length = 1};
  if (lead < 0xc2 || lead > 0xf4) return {.length = 1, .state = Utf8::bad};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t value = lead & (0x7f >> length);
  // The second byte alone decides on overlong forms, surrogates and what is past the last code point.
  unsigned char lowest = 0x80, highest = 0xbf;
  if (lead == 0xe0) lowest = 0xa0;
  if (lead == 0xed) highest = 0x9f;
  if (lead == 0xf0) lowest = 0x90;
  if (lead == 0xf4) highest = 0x8f;
  for (size_t i = 1; i < length; ++i) {
    if (at + i == text.size()) return {.length = i, .state = Utf8::cut};
    const unsigned char next = byte_at(text, at + i);
    if (next < lowest || next > highest) return {.length = i, .state = Utf8::bad};
    value = (value << 6) | (next & 0x3f);
    lowest = 0x80;
    highest = 0xbf;
  }
  return {.value = value, .length = length};
}

CodePoint known_point_at(std::string_view text, size_t at) {
  const unsigned char lead = byte_at(text, at);
  if (lead < 0x80) return {.value = lead, .length = 1};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t value = lead & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) value = (value << 6) | (byte_at(text, at + i) & 0x3f);
  return {.value = value, .length = length};
}

size_t valid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (point.state != Utf8::good) return at;
    at += point.length;
  }
  return at;
}

void append_point(std::string& out, char32_t point) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0 | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0 | (point >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

size_t append_lossy(std::string& out, std::string_view bytes, bool keep_cut) {
  size_t at = 0;
  while (at < bytes.size()) {
    const CodePoint point = code_point_at(bytes, at);
    if (point.state == Utf8::cut && keep_cut) return at;
    out += point.state == Utf8::good ? bytes.substr(at, point.length) : kReplacement;
    at += point.length;
  }
  return at;
}

}  // namespace gpukit::text
