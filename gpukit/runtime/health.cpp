#include "gpukit/runtime/health.h"

#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/driver/api.h"

namespace gpukit::runtime {

std::string Health::recent_launches() const {
  std::string text;
  uint32_t next = next_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kRecent && i < next; ++i) {
    const char* name = recent_[(next - 1 - i) % kRecent].load(std::memory_order_relaxed);
    if (name == nullptr) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text.empty() ? "none" : text;
}

std::string Health::note_error(int code, const std::string& text) {
  std::string recent = recent_launches();
  note_event("device", "error", text, 0, "code " + std::to_string(code) + "; last launches, newest first: " + recent);
  if (driver::is_sticky(code)) {
    std::lock_guard lock(mutex_);
    if (!dead_.load(std::memory_order_relaxed)) cause_ = text + "; last launches, newest first: " + recent;
    dead_.store(true, std::memory_order_relaxed);
  }
  return recent;
}

void Health::raise_dead() const {
  std::lock_guard lock(mutex_);
  throw DeviceError("the device's context was lost and cannot be used any more in this process: " + cause_);
}

}  // namespace gpukit::runtime
