// A number in a message.
#pragma once

#include <charconv>
#include <concepts>
#include <string>

namespace gpukit {

/// The shortest text that reads back as `value`: 0.1, 2, 1e-09, nan.
template <std::floating_point T>
std::string number_text(T value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace gpukit
