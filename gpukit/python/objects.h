// Python's handles of runtime objects.
#pragma once

#include <memory>

#include "gpukit/driver/objects.h"
#include "gpukit/python/bind.h"
#include "gpukit/runtime/graph.h"

namespace gpukit::python {

enum class StreamPriority : int { high = 0, low = 1 };

struct StreamObject {
  std::shared_ptr<driver::Stream> stream;  // null after close()

  /// Throws Error after close().
  const std::shared_ptr<driver::Stream>& get() const;
};

/// An event is made on the device of the first stream it is recorded on.
struct EventObject {
  bool blocking = false;
  std::unique_ptr<driver::Event> event;
};

/// Stream object, integer handle of one, or None for the current stream of `device`. The GIL is held.
std::shared_ptr<driver::Stream> to_stream(const char* op, nb::handle value, Device device);
/// The current stream of `device` in Python's session.
std::shared_ptr<driver::Stream> session_stream(Device device);

}  // namespace gpukit::python
