// Copies between host and device and within a device, on the current stream.
#pragma once

#include <cstddef>

#include "gpukit/memory/storage.h"

namespace gpukit::runtime {

/// Host memory to device. `source` may be reused when this returns. Throws inside a capture.
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

}  // namespace gpukit::runtime
