#include "gpukit/base/byte_size.h"

#include <charconv>
#include <cmath>
#include <string>

namespace gpukit {

std::optional<int64_t> read_byte_size(std::string_view text) {
  const auto trim = [](std::string_view& t) {
    while (t.starts_with(' ')) t.remove_prefix(1);
    while (t.ends_with(' ')) t.remove_suffix(1);
  };
  trim(text);
  double amount = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error != std::errc() || !(amount >= 0)) return {};
  std::string_view unit = text.substr(static_cast<size_t>(rest - text.data()));
  trim(unit);
  std::string name;
  for (const char c : unit) name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  int power = 0;
  if (!name.empty() && name != "b") {
    constexpr std::string_view kPrefixes = "kmgt";
    const size_t at = kPrefixes.find(name[0]);
    const std::string_view last = std::string_view(name).substr(1);
    if (at == std::string_view::npos || (last != "b" && last != "ib")) return {};
    power = 10 * (static_cast<int>(at) + 1);
  }
  const double size = std::ldexp(amount, power);
  if (!(size < 9e18)) return {};
  return std::llround(size);
}

}  // namespace gpukit
