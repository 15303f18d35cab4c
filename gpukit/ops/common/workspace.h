// Memory for what an operation makes and uses up within one call, inside of a graph capture too.
#pragma once

#include <memory>
#include <vector>

#include "gpukit/array/array.h"
#include "gpukit/runtime/workspace.h"

namespace gpukit {

/// Memory for what one call makes and uses up: of the current stream, or of the running capture. With it a call with
/// `out` allocates nothing. What is left there is gone with the next call of the stream.
class CallWorkspace {
 public:
  /// `bytes`: a sum of workspace_bytes(). Throws OutOfMemoryError naming `op`.
  CallWorkspace(const char* op, Device device, int64_t bytes);
  /// The next piece, uninitialised, at a multiple of 256 bytes. Throws Error when more is taken than was asked for.
  Array take(const Dims& shape, DType dtype);

 private:
  const char* op_;
  Device device_;
  runtime::WorkspacePiece piece_;
  int64_t bytes_, taken_ = 0;
};

/// What take() needs for an array: rounded up to 256.
int64_t workspace_bytes(const Dims& shape, DType dtype);

/// Arrays that one call makes and uses up, for calls that do not know beforehand how many. None outlives it.
class Temporaries {
 public:
  explicit Temporaries(const char* op) : op_(op) {}
  ~Temporaries() {
    while (!pieces_.empty()) pieces_.pop_back();  // the last one first
  }
  Temporaries(const Temporaries&) = delete;
  Temporaries& operator=(const Temporaries&) = delete;
  const char* op() const { return op_; }
  /// Uninitialised, row-major. Throws OutOfMemoryError naming the operation.
  Array empty(const Dims& shape, DType dtype, Device device);
  Array empty_like(const Array& other) { return empty(other.shape(), other.dtype(), other.device()); }

 private:
  const char* op_;
  std::vector<std::unique_ptr<CallWorkspace>> pieces_;
};

/// Makes the workspace of the current stream, or of the running capture, hold `bytes`: pieces that are taken one by one
/// outgrow block after block, and hold each. Throws OutOfMemoryError naming `op`.
void reserve_workspace(const char* op, Device device, int64_t bytes);

/// runtime::kCountedBytes as uint8, whose first runtime::kCounterBytes are 0 and left 0. Throws OutOfMemoryError naming
/// `op`.
Array counted_workspace(const char* op, Device device);

}  // namespace gpukit
