#include "gpukit/jit/slices.h"

#include <cmath>
#include <limits>

#include "gpukit/base/error.h"

namespace gpukit::jit {
namespace {

std::optional<size_t> find(std::span<const Parameter> parameters, const char* name) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterType& type = parameters[i].type;
    if (parameters[i].name == name && type.kind == ParameterType::Kind::scalar && is_integer(type.dtype)) return i;
  }
  return std::nullopt;
}

int64_t value_of(const std::string& function, std::span<const Parameter> parameters,
                 std::span<const Argument> arguments, size_t index) {
  const Argument& argument = arguments[index];
  const Scalar& number = argument.number;
  if (argument.kind != Argument::Kind::number || number.kind != ScalarKind::integer || number.is_unsigned_above ||
      number.integer < 0) {
    throw ArgumentError(function, label(parameters, index), "be an int of 0 or more with slice_ms",
                        argument.kind == Argument::Kind::number ? std::to_string(number.real) : "no number");
  }
  return number.integer;
}

}  // namespace

std::optional<ItemRange> item_range(const std::string& function, std::span<const Parameter> parameters,
                                    std::span<const Argument> arguments, const LaunchOptions& options) {
  if (!options.slice_ms) return std::nullopt;
  if (!(*options.slice_ms > 0) || !std::isfinite(*options.slice_ms))
    throw ArgumentError(function, "slice_ms", "be above 0 and finite", std::to_string(*options.slice_ms));
  const auto offset = find(parameters, "item_offset"), count = find(parameters, "item_count");
  if (!offset || !count || arguments.size() != parameters.size()) return std::nullopt;
  if (options.grid) {
    throw ArgumentError(function +
                        ": grid_size must not be given with slice_ms: each slice has one thread for each of its items");
  }
  ItemRange range{*offset, *count, value_of(function, parameters, arguments, *offset),
                  value_of(function, parameters, arguments, *count)};
  if (range.count > std::numeric_limits<int64_t>::max() - range.first) {
    throw ArgumentError(function, "item_offset + item_count", "fit an int64",
                        std::to_string(range.first) + " + " + std::to_string(range.count));
  }
  return range;
}

}  // namespace gpukit::jit
