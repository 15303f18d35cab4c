#include "gpukit/ops/common/call_room.h"

#include <memory>

#include "gpukit/memory/fence.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/stream_group.h"

namespace gpukit {
namespace {

/// The room that the calls of a stream share in a capture. The graph alone keeps it, so that it is gone when another
/// capture stands at the same address.
struct CaptureRoom {
  const runtime::Capture* capture = nullptr;
  uint64_t stream = 0;
  std::weak_ptr<memory::Storage> storage;
};
thread_local CaptureRoom t_room;

/// A block that no work uses any more: a capture cannot be made to wait for such work.
std::shared_ptr<memory::Storage> allocate_idle(int64_t bytes, Device device) {
  runtime::DeviceState& state = runtime::open_device(device);
  state.health.check();
  const memory::RelaxedCapture relaxed(state.context);
  const std::shared_ptr<driver::Stream> lane = runtime::new_stream(device, 0, false);
  auto storage =
      memory::Storage::allocate(*state.resource, static_cast<size_t>(bytes), lane, runtime::current_account(device));
  lane->synchronize();
  return storage;
}

}  // namespace

Array call_room(int64_t bytes, Device device) {
  const runtime::Capture* capture = runtime::thread_capture();
  if (capture == nullptr) return Array::empty({bytes}, DType::uint8, device);
  const uint64_t stream = runtime::borrow_stream(device)->id();
  std::shared_ptr<memory::Storage> storage;
  if (t_room.capture == capture && t_room.stream == stream) storage = t_room.storage.lock();
  if (storage == nullptr || storage->device() != device || storage->bytes() < static_cast<size_t>(bytes)) {
    storage = allocate_idle(bytes, device);
    t_room = {capture, stream, storage};
  }
  return Array(std::move(storage), DType::uint8, {bytes}, {1}, 0);
}

}  // namespace gpukit
