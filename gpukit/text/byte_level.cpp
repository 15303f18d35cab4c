#include "gpukit/text/byte_level.h"

#include <array>

#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

constexpr size_t kNumPoints = 0x100 + 68;

struct Spellings {
  std::array<std::string, 256> of_byte;
  std::array<int, kNumPoints> of_point;

  Spellings() {
    of_point.fill(-1);
    char32_t other = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool shown = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      const char32_t point = shown ? static_cast<char32_t>(byte) : other++;
      append_point(of_byte[byte], point);
      of_point[point] = byte;
    }
  }
};

const Spellings& spellings() {
  static const Spellings all;
  return all;
}

}  // namespace

std::string_view spelling_of(unsigned char byte) { return spellings().of_byte[byte]; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) out += spelling_of(static_cast<unsigned char>(c));
  return out;
}

std::optional<std::string> bytes_of(std::string_view token) {
  const auto& of_point = spellings().of_point;
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const CodePoint point = known_point_at(token, at);
    if (point.value >= kNumPoints || of_point[point.value] < 0) return std::nullopt;
    bytes += static_cast<char>(of_point[point.value]);
    at += point.length;
  }
  return bytes;
}

}  // namespace gpukit::text
