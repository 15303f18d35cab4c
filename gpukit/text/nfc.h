// Canonical composition, normalisation form C. Unicode 9.0: a mark added later is a character of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpukit::text {

/// `text` must be UTF-8.
std::string nfc(std::string_view text);

struct CombiningRange {
  uint32_t first, last, combining_class;
};
struct Decomposition {
  uint32_t whole, first, second;  // second is 0 where one code point stands for another
};
extern const std::span<const CombiningRange> kCombining;            // ascending
extern const std::span<const Decomposition> kComposed, kSplitOnly;  // ascending; the latter are never put together

}  // namespace gpukit::text
