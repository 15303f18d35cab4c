#include "gpukit/base/error.h"

#include <system_error>

namespace gpukit {
namespace {

std::string join(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (std::string_view part : parts) text += part;
  return text;
}

std::string cuda_message(std::string_view call, int code, std::string_view name, std::string_view detail) {
  std::string text = join({call, " failed: ", name, " (", std::to_string(code), ")"});
  if (!detail.empty()) text += join({": ", detail});
  return text;
}

std::string file_message(std::string_view path, int error_number, std::string_view action) {
  std::string text = join({action, " ", path});
  if (error_number != 0) text += ": " + std::generic_category().message(error_number);
  return text;
}

}  // namespace

ArgumentError::ArgumentError(std::string_view op, std::string_view argument, std::string_view needed,
                             std::string_view given)
    : Error(join({op, ": ", argument, " must ", needed, ", got ", given})),
      op(op),
      argument(argument),
      needed(needed),
      given(given) {}

OutOfRangeError::OutOfRangeError(std::string_view op, int64_t index, int64_t limit)
    : Error(join(
          {op, ": index ", std::to_string(index), " is out of range for an axis of size ", std::to_string(limit)})),
      index(index),
      limit(limit) {}

CudaError::CudaError(std::string_view call, int code, std::string_view name, std::string_view detail)
    : Error(cuda_message(call, code, name, detail)), call(call), name(name), code(code) {}

NvrtcError::NvrtcError(int code, const std::string& message, std::string log)
    : Error(message), code(code), log(std::move(log)) {}

FileError::FileError(std::string_view path, int error_number, std::string_view action)
    : Error(file_message(path, error_number, action)), path(path), error_number(error_number) {}

}  // namespace gpukit
