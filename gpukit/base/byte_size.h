// Sizes of memory as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpukit {

/// `512`, `16MB`, `1.5 GiB`: bytes, 0 or more. Units are B, KiB, MiB, GiB, TiB; KB, MB, GB and TB mean the same powers
/// of 1024, as the constants of the 0.2 series do. Upper and lower case alike. nullopt for anything else.
std::optional<int64_t> read_byte_size(std::string_view text);

}  // namespace gpukit
