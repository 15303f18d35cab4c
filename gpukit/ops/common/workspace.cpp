#include "gpukit/ops/common/workspace.h"

#include <string>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/trace.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/session.h"

namespace gpukit {
namespace {

int64_t rounded(int64_t bytes) {
  constexpr int64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Has the operation's name put in front of what the pool says.
template <typename F>
auto named(const char* op, int64_t bytes, F&& make) {
  try {
    return make();
  } catch (const OutOfMemoryError& error) {
    throw OutOfMemoryError(
        std::string(op) + ": needs a workspace of " + std::to_string(bytes) + " bytes: " + error.what(),
        error.asked_bytes, error.in_use_bytes, error.limit_bytes);
  }
}

}  // namespace

int64_t workspace_bytes(const Dims& shape, DType dtype) { return rounded(shape.product() * itemsize(dtype)); }

CallWorkspace::CallWorkspace(const char* op, Device device, int64_t bytes)
    : op_(op),
      device_(device),
      piece_(named(op, bytes, [&] { return runtime::WorkspacePiece(device, static_cast<size_t>(bytes)); })),
      bytes_(rounded(bytes)) {}

Array CallWorkspace::take(const Dims& shape, DType dtype) {
  const int64_t bytes = workspace_bytes(shape, dtype);
  if (taken_ + bytes > bytes_)
    throw Error(std::string(op_) + ": takes " + std::to_string(taken_ + bytes) + " bytes of a workspace of " +
                std::to_string(bytes_));
  std::shared_ptr<memory::Storage> storage = piece_.storage();
  // An empty array has no bytes, but a device.
  if (storage == nullptr)
    storage = memory::Storage::allocate(*runtime::open_device(device_).resource, 0, runtime::current_stream(device_));
  const int64_t offset = piece_.offset() + taken_;
  taken_ += bytes;
  return Array(std::move(storage), dtype, shape, contiguous_strides(shape), offset);
}

Array Temporaries::empty(const Dims& shape, DType dtype, Device device) {
  if (Trace* trace = current_trace()) [[unlikely]]
    return trace->make(op_, shape, dtype, device);
  pieces_.push_back(std::make_unique<CallWorkspace>(op_, device, workspace_bytes(shape, dtype)));
  return pieces_.back()->take(shape, dtype);
}

void reserve_workspace(const char* op, Device device, int64_t bytes) { const CallWorkspace made(op, device, bytes); }

Array counted_workspace(const char* op, Device device) {
  constexpr auto kBytes = static_cast<int64_t>(runtime::kCountedBytes);
  return Array(named(op, kBytes, [&] { return runtime::counted_workspace(device); }), DType::uint8, {kBytes}, {1}, 0);
}

}  // namespace gpukit
