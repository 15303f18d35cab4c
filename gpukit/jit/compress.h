// Compression of kernel images: a dictionary coder over a whole block with an adaptive binary range coder behind it.
// Many kernels of one family are nearly the same code, far apart: a window of the whole block is what makes them small.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpukit::jit {

/// The same bytes in, the same bytes out, on every machine.
std::string compress(std::string_view data);

/// nullopt when `packed` is not what compress() made of `size` bytes. Safe on any input.
std::optional<std::string> decompress(std::string_view packed, size_t size);

}  // namespace gpukit::jit
