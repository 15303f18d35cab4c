// The version of the library: the text of the file VERSION.
#pragma once

namespace gpukit {

/// For example "0.3.0".
const char* version() noexcept;

}  // namespace gpukit
