#include "gpukit/text/unicode.h"

#include <algorithm>
#include <array>

namespace gpukit::text {
namespace {

bool is_in(std::span<const PointRange> ranges, char32_t point) {
  const auto after = std::ranges::upper_bound(ranges, point, {}, &PointRange::first);
  return after != ranges.begin() && point <= std::prev(after)->last;
}

bool is_white(char32_t point) {
  return (point >= 0x9 && point <= 0xd) || point == 0x20 || point == 0x85 || point == 0xa0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 || point == 0x202f ||
         point == 0x205f || point == 0x3000;
}

PointClass look_up(char32_t point) {
  if (is_white(point)) return PointClass::space;
  if (is_in(kLetters, point)) return PointClass::letter;
  return is_in(kNumbers, point) ? PointClass::number : PointClass::other;
}

}  // namespace

PointClass class_of(char32_t point) {
  static const auto ascii = [] {
    std::array<PointClass, 128> classes{};
    for (char32_t c = 0; c < 128; ++c) classes[c] = look_up(c);
    return classes;
  }();
  return point < 128 ? ascii[point] : look_up(point);
}

}  // namespace gpukit::text
