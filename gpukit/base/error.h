// Exceptions of the library. Each names the fault; the Python classes of the same name derive from these.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gpukit {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// A bad argument value. Message: `op: argument must needed, got given`.
class ArgumentError : public Error {
 public:
  explicit ArgumentError(const std::string& message) : Error(message) {}
  ArgumentError(std::string_view op, std::string_view argument, std::string_view needed, std::string_view given);
  std::string op, argument, needed, given;
};

/// Shapes that do not fit each other or the operation.
class ShapeError : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};

/// A dtype the operation does not take. In Python a TypeError and a ValueError.
class DTypeError : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};

class OutOfRangeError : public Error {
 public:
  explicit OutOfRangeError(const std::string& message) : Error(message) {}
  OutOfRangeError(std::string_view op, int64_t index, int64_t limit);
  int64_t index = 0, limit = 0;
};

/// A device that is missing, refused or does not match.
class DeviceError : public Error {
 public:
  using Error::Error;
};

class OutOfMemoryError : public Error {
 public:
  explicit OutOfMemoryError(const std::string& message, int64_t asked = 0, int64_t in_use = 0, int64_t limit = 0)
      : Error(message), asked_bytes(asked), in_use_bytes(in_use), limit_bytes(limit) {}
  int64_t asked_bytes, in_use_bytes, limit_bytes;
};

/// A driver call that failed. `code` is the driver's CUresult.
class CudaError : public Error {
 public:
  CudaError(std::string_view call, int code, std::string_view name, std::string_view detail = {});
  std::string call, name;
  int code = 0;
};

/// A failed run-time compilation. `code` is nvrtcResult, or 1000 and up for faults around the compiler.
class NvrtcError : public Error {
 public:
  NvrtcError(int code, const std::string& message, std::string log = {});
  int code = 0;
  std::string log;
};

class FormatError : public Error {
 public:
  using Error::Error;
};

class FileError : public Error {
 public:
  FileError(std::string_view path, int error_number, std::string_view action);
  std::string path;
  int error_number = 0;
};

class NotFoundError : public Error {
 public:
  using Error::Error;
};

/// Something another library's exchange protocol cannot represent. In Python a BufferError.
class ExchangeError : public Error {
 public:
  using Error::Error;
};

class DeadlineError : public Error {
 public:
  using Error::Error;
};

/// Valid input that this device or build cannot compute. In Python a NotImplementedError.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

}  // namespace gpukit
