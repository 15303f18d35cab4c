// Launches of a user's kernel that may be cut: the kernel declares which items it works on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "gpukit/jit/arguments.h"

namespace gpukit::jit {

/// A kernel that declares the integers `item_offset` and `item_count` works on the items [item_offset, item_offset +
/// item_count), one thread for each.
struct ItemRange {
  size_t offset_parameter = 0, count_parameter = 0;
  int64_t first = 0, count = 0;
};

/// The items of a call with options.slice_ms; nothing when the call asks for no slices or the kernel declares no items.
/// Throws ArgumentError for a slice_ms that is not above 0, a grid beside it, or items that are no range.
std::optional<ItemRange> item_range(const std::string& function, std::span<const Parameter> parameters,
                                    std::span<const Argument> arguments, const LaunchOptions& options);

}  // namespace gpukit::jit
