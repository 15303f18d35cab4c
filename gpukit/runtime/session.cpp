#include "gpukit/runtime/session.h"

#include "gpukit/runtime/device.h"

namespace gpukit::runtime {

thread_local const Session* SessionGuard::current_ = nullptr;

Session Session::with_device(Device value) const {
  Session changed = *this;
  changed.device = value;
  return changed;
}

Session Session::with_stream(std::shared_ptr<driver::Stream> stream) const {
  Session changed = *this;
  for (auto& held : changed.streams) {
    if (held->device() == stream->device()) {
      held = std::move(stream);
      return changed;
    }
  }
  changed.streams.push_back(std::move(stream));
  return changed;
}

const Session& current_session() {
  static const Session* none = new Session;
  return SessionGuard::current_ != nullptr ? *SessionGuard::current_ : *none;
}

const std::shared_ptr<driver::Stream>& current_stream(Device device) {
  if (SessionGuard::current_ != nullptr) {
    for (const auto& stream : SessionGuard::current_->streams)
      if (stream->device() == device) return stream;
  }
  return open_device(device).default_stream;
}

}  // namespace gpukit::runtime
