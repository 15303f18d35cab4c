#include "gpukit/ops/reduce/scratch.h"

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gpukit/jit/kernel.h"
#include "gpukit/memory/fence.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::cuda {

namespace {

constexpr int64_t kEagerLimit = 64 << 20;

struct Buffer {
  Array array;
  std::unique_ptr<driver::Event> ready;  // when whatever used the block before has finished
};

/// What one stream's kernels count in, one after another.
struct StreamBuffer {
  std::weak_ptr<driver::Stream> stream;
  Array array;
};

struct Shelf {
  std::mutex mutex;
  std::vector<Buffer> buffers;
  std::unordered_map<uint64_t, StreamBuffer> by_stream;
  std::atomic<int> count{0};
};

Shelf& shelf(Device device) {
  static auto* shelves = new std::array<Shelf, jit::kMaxDevices>;
  return (*shelves)[static_cast<size_t>(device.index)];
}

/// Queries an event inside a capture, which a capturing thread may do only in relaxed mode.
bool is_ready(const driver::Event& event) {
  const memory::RelaxedCapture relaxed(event.context());
  return event.query();
}

/// A buffer whose counter is 0 in the order of the current stream. It outlives sessions, so none is charged for it.
Array make_buffer(Device device) {
  const runtime::Session own = runtime::Session()
                                   .with_stream(runtime::borrow_stream(device))
                                   .with_account(runtime::open_device(device).resource->root());
  const runtime::SessionGuard guard(own);
  Array array = Array::empty({kCaptureScratchBytes}, DType::uint8, device);
  runtime::fill(write(array), 4, 0, kCounterBytes / 4);
  return array;
}

void fill_shelf(Shelf& s, Device device) {
  std::lock_guard lock(s.mutex);
  while (static_cast<int>(s.buffers.size()) < kCaptureScratchCount) {
    Buffer buffer{make_buffer(device), nullptr};
    const driver::Stream& stream = *runtime::borrow_stream(device);
    buffer.ready = std::make_unique<driver::Event>(stream.context());
    buffer.ready->record(stream);
    s.buffers.push_back(std::move(buffer));
  }
  s.count.store(kCaptureScratchCount, std::memory_order_relaxed);
}

}  // namespace

int64_t scratch_limit(Device device) {
  if (runtime::thread_capture() == nullptr) return kEagerLimit;
  return shelf(device).count.load(std::memory_order_relaxed) > 0 ? kCaptureScratchBytes : 0;
}

namespace {

std::optional<Array> take_from_shelf(Shelf& s) {
  std::lock_guard lock(s.mutex);
  for (auto buffer = s.buffers.begin(); buffer != s.buffers.end(); ++buffer) {
    if (!is_ready(*buffer->ready)) continue;
    Array array = std::move(buffer->array);
    s.buffers.erase(buffer);
    s.count.store(static_cast<int>(s.buffers.size()), std::memory_order_relaxed);
    return array;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Array> take_scratch(Device device, int64_t bytes) {
  Shelf& s = shelf(device);
  if (runtime::thread_capture() != nullptr) return take_from_shelf(s);
  if (s.count.load(std::memory_order_relaxed) < kCaptureScratchCount) fill_shelf(s, device);
  return Array::empty({bytes}, DType::uint8, device);
}

std::optional<Array> take_counted_scratch(Device device) {
  Shelf& s = shelf(device);
  if (runtime::thread_capture() != nullptr) return take_from_shelf(s);
  if (s.count.load(std::memory_order_relaxed) < kCaptureScratchCount) fill_shelf(s, device);
  const auto& stream = runtime::borrow_stream(device);
  std::lock_guard lock(s.mutex);
  auto found = s.by_stream.find(stream->id());
  if (found == s.by_stream.end()) {
    std::erase_if(s.by_stream, [](const auto& entry) { return entry.second.stream.expired(); });
    found = s.by_stream.emplace(stream->id(), StreamBuffer{stream, make_buffer(device)}).first;
  }
  return found->second.array;
}

}  // namespace gpukit::cuda
