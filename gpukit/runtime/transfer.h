// Copies between host and device and within a device, on the current stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "gpukit/memory/storage.h"

namespace gpukit::runtime {

/// Host memory to device. `source` may be reused when this returns. Throws inside a capture. Large pageable memory goes
/// through the page-locked ring of the device's transfer engine, still on the current stream.
void copy_from_host(const memory::Use& destination, const void* source, size_t bytes);
/// Device to host; waits for the copy and raises what the wait finds. Throws inside a capture, naming `caller`.
void copy_to_host(void* destination, const memory::Use& source, size_t bytes, const char* caller);
/// Host memory to device without waiting: `source` must stay valid (and page-locked to be asynchronous) until the
/// stream is done.
void copy_from_host_async(const memory::Use& destination, const void* source, size_t bytes,
                          const std::shared_ptr<driver::Stream>& stream);
void copy_to_host_async(void* destination, const memory::Use& source, size_t bytes,
                        const std::shared_ptr<driver::Stream>& stream);
/// Within one device or between two of one kind, ordered on the destination's current stream (or `stream`).
void copy_device(const memory::Use& destination, const memory::Use& source, size_t bytes);
void copy_device_async(const memory::Use& destination, const memory::Use& source, size_t bytes,
                       const std::shared_ptr<driver::Stream>& stream);
/// `count` repeats of the low `value_bytes` (1, 2 or 4) of `value`.
void fill(const memory::Use& destination, int value_bytes, uint32_t value, size_t count);

/// Transfers of the process that are queued or under way.
extern constinit std::atomic<int64_t> g_active_transfers;

/// Before work on `stream` reads or writes a block: orders it after the transfers that use the block. One load when the
/// process has none.
void settle_slow(std::span<const memory::Use> uses, const driver::Stream& stream);
inline bool transfers_active() { return g_active_transfers.load(std::memory_order_acquire) != 0; }
inline void settle(std::span<const memory::Use> uses, const driver::Stream& stream) {
  if (transfers_active()) [[unlikely]]
    settle_slow(uses, stream);
}

/// Waiting copies of at least this many pageable bytes go through the ring; 0: the default.
void set_staged_bytes(size_t bytes);

}  // namespace gpukit::runtime
