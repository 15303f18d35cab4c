// What ElementwiseKernel and ReductionKernel share: spaces of several operands, raw arrays, pieces of a program.
#pragma once

#include <string>
#include <vector>

#include "gpukit/jit/program.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/custom/parameters.h"

namespace gpukit::custom {

/// A loop over some axes of several operands, steps in elements: 0 where an operand is broadcast.
struct Space {
  Dims shape;
  std::vector<Dims> strides;  // of each operand, one per axis

  int64_t size() const { return shape.product(); }
  /// Drops axes of size 1 and makes one of neighbours that every operand walks as one; leaves one axis at least.
  void merge_axes();
  /// The bytes of custom.cuh's Loop<rank, operands>.
  std::vector<int64_t> packed() const;
};

/// The steps of `array`, which broadcasts to `shape`; a null array is a number.
Dims broadcast_strides(const Array* array, const Dims& shape);

/// The bytes of custom.cuh's RawLayout.
struct PackedRaw {
  int64_t size;
  int64_t shape[kMaxRank] = {}, strides[kMaxRank] = {};
  int32_t rank, contiguous;
  explicit PackedRaw(const Array& array);
};

/// A call's arguments: one operand per input, one array or null per output.
struct CallArguments {
  std::vector<Operand> inputs;
  std::vector<const Array*> outputs;
};

struct CallOptions {
  std::optional<int64_t> size;
  int64_t block_size = 256;
};

/// The device of the arrays; the default one where there is none. Throws DeviceError when they differ.
Device common_device(const std::string& kernel, std::span<const Parameter> inputs, std::span<const Parameter> outputs,
                     const CallArguments& call);
/// The letters of a call. Throws DTypeError.
Letters letters_of(const std::string& kernel, std::span<const Parameter> inputs, std::span<const Parameter> outputs,
                   const CallArguments& call);
/// The shape that arrays which are not raw broadcast to; nothing when there is none. Throws ShapeError.
std::optional<Dims> common_shape(const std::string& kernel, std::span<const Parameter> parameters,
                                 std::span<const Operand> values);

/// Options of a user as the compiler takes them, with the standard the programs need.
std::vector<std::string> program_options(const std::vector<std::string>& given);
/// User's text with lines of its own: what the compiler says counts them from 1 in `part`.
std::string numbered(const char* part, const std::string& text);

/// Parameters of the kernel for the operands, in order: pointers of arrays, numbers, layouts of raw arrays.
std::string declare(const Parameter& parameter, DType dtype, bool is_array, bool is_output);
/// What stands at the start of the kernel's body for a raw array.
std::string raw_view(const Parameter& parameter, DType dtype, bool is_output);

}  // namespace gpukit::custom
