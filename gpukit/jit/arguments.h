// A call of a user's kernel: arguments checked against its parameters, packed for the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpukit/base/scalar.h"
#include "gpukit/jit/launch.h"
#include "gpukit/jit/mangled.h"
#include "gpukit/memory/storage.h"

namespace gpukit::jit {

struct Parameter {
  std::string name;  // empty: it can be passed by position only
  ParameterType type;
};

/// `n`, or `argument 3` where there is no name. For messages.
std::string label(std::span<const Parameter> parameters, size_t index);

/// What is passed for one parameter.
struct Argument {
  enum class Kind : uint8_t { missing, null, array, number };
  Kind kind = Kind::missing;
  bool contiguous = true;        // array
  DType dtype = DType::float32;  // array
  Device device;                 // array
  int64_t size = 0;              // array: elements
  memory::Use use;               // array; `write` is decided by the parameter
  Scalar number;
};

struct Extent {
  int64_t x = 1, y = 1, z = 1;
};

struct LaunchOptions {
  std::optional<Extent> grid;   // none: ceil(elements of the first array / threads of a block)
  std::optional<Extent> block;  // none: the kernel's block size
  int64_t shared_bytes = 0;
  std::optional<double> slice_ms;  // cut into slices of at most this long (slices.h); none: one launch
  const std::shared_ptr<driver::Stream>* stream = nullptr;  // null: the device's current one
};

/// Room for one call; lives on the caller's stack.
struct PackedCall {
  static constexpr int kMaxParameters = 64;
  alignas(16) unsigned char values[kMaxParameters][sizeof(ElementBytes)];
  void* pointers[kMaxParameters + 1];
  uint32_t sizes[kMaxParameters + 1];
  memory::Use uses[kMaxParameters];
  unsigned char* moving[kMaxParameters];  // per use: the value to fill in under a Hold, or null
  size_t num_values = 0, num_uses = 0;
  LaunchConfig config;

  /// Fills in the addresses of blocks that may move. Under a Hold of `uses`.
  void place();
};

/// Fills `call`. Every array must be on `device`. Throws DTypeError, ArgumentError, DeviceError, UnsupportedError that
/// name the kernel `function` and the parameter.
void pack_call(const std::string& function, std::span<const Parameter> parameters, std::span<const Argument> arguments,
               Device device, const LaunchOptions& options, int64_t block_size, PackedCall* call);

}  // namespace gpukit::jit
