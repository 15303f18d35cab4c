// How byte-level vocabularies spell bytes: printable Latin-1 as itself, the 68 others from U+0100 on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpukit::text {

/// The UTF-8 spelling of one byte.
std::string_view spelling_of(unsigned char byte);
/// The spelling of all bytes.
std::string spell_bytes(std::string_view bytes);
/// The bytes of a token; nullopt when a character of it spells none. `token` must be UTF-8.
std::optional<std::string> bytes_of(std::string_view token);

}  // namespace gpukit::text
