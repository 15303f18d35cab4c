#include "gpukit/jit/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gpukit/base/error.h"

namespace gpukit::jit {
namespace {

constexpr int64_t kMaxGridX = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxGridYZ = 65535;
constexpr int64_t kMaxBlockThreads = 1024;
constexpr int64_t kMaxBlockZ = 64;

const char* kind_text(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::boolean: return "a bool";
    case ScalarKind::integer: return "an int";
    case ScalarKind::real: return "a float";
    case ScalarKind::complex: return "a complex";
  }
  return "a number";
}

std::string dtype_list(uint32_t accepts) {
  std::string text;
  for (int i = 0; i < kNumDTypes; ++i)
    if ((accepts >> i & 1u) != 0) text += (text.empty() ? "" : " or ") + std::string(name(static_cast<DType>(i)));
  return text;
}

std::string integer_text(const Scalar& number) {
  return number.is_unsigned_above ? std::to_string(static_cast<uint64_t>(number.integer))
                                  : std::to_string(number.integer);
}

/// The whole numbers of an integer dtype. For uint64 the upper end is tested by is_unsigned_above.
bool fits(const Scalar& number, DType dtype) {
  const int bits = 8 * itemsize(dtype);
  if (is_unsigned_integer(dtype)) {
    if (number.is_unsigned_above) return bits == 64;
    return number.integer >= 0 && (bits == 64 || number.integer < (int64_t{1} << bits));
  }
  if (number.is_unsigned_above) return false;
  if (bits == 64) return true;
  const int64_t limit = int64_t{1} << (bits - 1);
  return number.integer >= -limit && number.integer < limit;
}

std::string range_text(DType dtype) {
  const int bits = 8 * itemsize(dtype);
  if (is_unsigned_integer(dtype)) return "0 to " + std::to_string(~uint64_t{0} >> (64 - bits));
  const int64_t high = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return std::to_string(-high - 1) + " to " + std::to_string(high);
}

/// The largest finite value, as the number a double must stay below to round to it.
double overflow_limit(DType dtype) {
  switch (dtype) {
    case DType::float16: return 65520.0;
    case DType::bfloat16: return 0x1.ffp127;
    case DType::float32: return 0x1.ffffffp127;
    default: return std::numeric_limits<double>::infinity();
  }
}

unsigned checked(const std::string& op, const char* argument, int64_t value, int64_t limit) {
  if (value < 1 || value > limit)
    throw ArgumentError(op, argument, "be 1 to " + std::to_string(limit), std::to_string(value));
  return static_cast<unsigned>(value);
}

/// One kernel's signature, for messages and packing.
struct Packer {
  const std::string& function;
  std::span<const Parameter> parameters;

  void pack_number(size_t index, const Scalar& number, void* value) const {
    const ParameterType& type = parameters[index].type;
    const DType dtype = type.dtype;
    const bool whole = number.kind == ScalarKind::boolean || number.kind == ScalarKind::integer;
    const bool kind_fits =
        whole ||
        (number.kind == ScalarKind::real && (is_floating(dtype) || is_complex(dtype) || is_storage_only(dtype))) ||
        (number.kind == ScalarKind::complex && is_complex(dtype));
    if (!kind_fits)
      throw DTypeError(function, label(parameters, index), "be a number for " + type.text, kind_text(number.kind));
    if (dtype == DType::boolean) {
      if (number.is_unsigned_above || number.integer < 0 || number.integer > 1) {
        throw ArgumentError(function, label(parameters, index), "be True, False, 0 or 1 for bool",
                            integer_text(number));
      }
    } else if (is_integer(dtype)) {
      if (!fits(number, dtype)) {
        throw ArgumentError(function, label(parameters, index), "be " + range_text(dtype) + " for " + type.text,
                            integer_text(number));
      }
    } else if (std::isfinite(number.real) && std::fabs(number.real) >= overflow_limit(dtype)) {
      throw ArgumentError(function, label(parameters, index), "fit " + type.text, std::to_string(number.real));
    }
    const ElementBytes element = to_element(function.c_str(), number, dtype);
    std::memcpy(value, element.bytes, sizeof(element.bytes));
  }

  /// Gives the bytes of the value; an array also goes to `use`.
  uint32_t pack(size_t index, const Argument& argument, void* value, memory::Use* use) const {
    const ParameterType& type = parameters[index].type;
    switch (type.kind) {
      case ParameterType::Kind::unsupported:
        throw UnsupportedError(function + ": " + label(parameters, index) + " has the type " + type.text +
                               ", which cannot be passed from here; pass its members, or a pointer to an array");
      case ParameterType::Kind::scalar:
        if (argument.kind != Argument::Kind::number) {
          const char* given = argument.kind == Argument::Kind::array ? "an array; use x.item() for its value" : "None";
          throw DTypeError(function, label(parameters, index), "be a number for " + type.text, given);
        }
        pack_number(index, argument.number, value);
        return static_cast<uint32_t>(itemsize(type.dtype));
      case ParameterType::Kind::pointer: break;
    }
    driver::Address address = 0;
    if (argument.kind == Argument::Kind::array) {
      if (!type.takes(argument.dtype)) {
        throw DTypeError(function, label(parameters, index),
                         "be an array of " + dtype_list(type.accepts) + " for " + type.text,
                         gpukit::name(argument.dtype));
      }
      if (!argument.contiguous) {
        throw ArgumentError(function, label(parameters, index), "be contiguous", "a strided view; pass x.contiguous()");
      }
      if (argument.size != 0) {
        const memory::Storage& storage = **argument.use.storage;
        // A block that may move has its address under the launch's hold only; each starts at a multiple of 256.
        address = (storage.managed() ? 0 : storage.address()) + static_cast<driver::Address>(argument.use.offset_bytes);
        if (address % type.alignment != 0) {
          throw ArgumentError(function, label(parameters, index),
                              "start at a multiple of " + std::to_string(type.alignment) + " bytes for " + type.text,
                              "a view that does not; pass a copy");
        }
      }
      *use = argument.use;
      use->write = !type.constant;
    } else if (argument.kind != Argument::Kind::null) {
      throw DTypeError(function, label(parameters, index), "be an array for " + type.text,
                       kind_text(argument.number.kind));
    }
    std::memcpy(value, &address, sizeof(address));
    return sizeof(address);
  }
};

LaunchConfig config_of(const std::string& function, const LaunchOptions& options, int64_t block_size,
                       int64_t first_size) {
  const Extent block = options.block.value_or(Extent{block_size, 1, 1});
  LaunchConfig config;
  config.block_x = checked(function, "block_size", block.x, kMaxBlockThreads);
  config.block_y = checked(function, "block_size", block.y, kMaxBlockThreads);
  config.block_z = checked(function, "block_size", block.z, kMaxBlockZ);
  const int64_t threads = checked(function, "block_size", block.x * block.y * block.z, kMaxBlockThreads);
  Extent grid;
  if (options.grid) {
    grid = *options.grid;
  } else if (first_size < 0) {
    throw ArgumentError(function + ": grid_size must be given: the kernel has no array argument to take it from");
  } else {
    grid.x = std::max<int64_t>((first_size + threads - 1) / threads, 1);
  }
  config.grid_x = checked(function, "grid_size", grid.x, kMaxGridX);
  config.grid_y = checked(function, "grid_size", grid.y, kMaxGridYZ);
  config.grid_z = checked(function, "grid_size", grid.z, kMaxGridYZ);
  if (options.shared_bytes < 0 || options.shared_bytes > std::numeric_limits<int>::max()) {
    throw ArgumentError(function, "shared_mem", "be a number of bytes", std::to_string(options.shared_bytes));
  }
  config.shared_bytes = static_cast<unsigned>(options.shared_bytes);
  return config;
}

}  // namespace

std::string label(std::span<const Parameter> parameters, size_t index) {
  const std::string& name = parameters[index].name;
  return name.empty() ? "argument " + std::to_string(index + 1) : name;
}

void pack_call(const std::string& function, std::span<const Parameter> parameters, std::span<const Argument> arguments,
               Device device, const LaunchOptions& options, int64_t block_size, PackedCall* call) {
  if (arguments.size() != parameters.size()) {
    throw ArgumentError(function, "arguments", "be " + std::to_string(parameters.size()),
                        std::to_string(arguments.size()));
  }
  const Packer packer{function, parameters};
  int64_t first_size = -1;
  call->num_values = arguments.size();
  call->num_uses = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (argument.kind == Argument::Kind::missing) throw DTypeError(function + ": missing " + label(parameters, i));
    if (argument.kind == Argument::Kind::array) {
      if (!(argument.device == device)) {
        throw DeviceError(function + ": " + label(parameters, i) + " is on " + str(argument.device) +
                          ", the kernel runs on " + str(device) + "; move it with x.to('" + str(device) + "')");
      }
      if (first_size < 0) first_size = argument.size;
    }
    memory::Use use;
    call->sizes[i] = packer.pack(i, argument, call->values[i], &use);
    call->pointers[i] = call->values[i];
    if (use.storage == nullptr) continue;
    const bool moves = argument.size != 0 && (*use.storage)->managed();
    call->moving[call->num_uses] = moves ? call->values[i] : nullptr;
    call->uses[call->num_uses++] = use;
  }
  call->config = config_of(function, options, block_size, first_size);
}

void PackedCall::place() {
  for (size_t i = 0; i < num_uses; ++i) {
    if (moving[i] == nullptr) continue;
    const driver::Address address = (*uses[i].storage)->address() + static_cast<driver::Address>(uses[i].offset_bytes);
    std::memcpy(moving[i], &address, sizeof(address));
  }
}

}  // namespace gpukit::jit
