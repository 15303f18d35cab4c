// Classes of code points, as regular expressions have them: letters (L), numbers (N), white space. Unicode 16.0.
#pragma once

#include <cstdint>
#include <span>

namespace gpukit::text {

enum class PointClass : uint8_t { other, letter, number, space };

PointClass class_of(char32_t point);
inline bool is_space(char32_t point) { return class_of(point) == PointClass::space; }
/// What may stand inside of a word: a letter, a number or an underscore.
inline bool is_word(char32_t point) {
  const PointClass kind = class_of(point);
  return kind == PointClass::letter || kind == PointClass::number || point == U'_';
}

struct PointRange {
  uint32_t first, last;
};
extern const std::span<const PointRange> kLetters, kNumbers;  // ascending

}  // namespace gpukit::text
