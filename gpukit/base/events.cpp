#include "gpukit/base/events.h"

#include <algorithm>
#include <mutex>

#include "gpukit/base/files.h"
#include "gpukit/base/fork.h"
#include "gpukit/base/json.h"

namespace gpukit {

namespace {

struct Ring {
  std::mutex mutex;
  std::vector<Event> entries;  // grows to the capacity, then wraps
  uint64_t count = 0;
};

Ring& ring() {
  static auto* value = new Ring;
  return *value;
}

std::mutex& ring_mutex() { return ring().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<ring_mutex>();

}  // namespace

std::string Event::json() const {
  Json line = Json::object();
  line.set("number", static_cast<int64_t>(number));
  line.set("at_ns", at_ns);
  line.set("source", source);
  line.set("action", action);
  line.set("subject", subject);
  if (bytes != 0) line.set("bytes", bytes);
  if (!detail.empty()) line.set("detail", detail);
  return line.dump();
}

void note_event(const char* source, const char* action, std::string_view subject, int64_t bytes,
                std::string_view detail) noexcept {
  const int64_t now = files::wall_clock_ns();
  try {
    Ring& r = ring();
    std::lock_guard lock(r.mutex);
    if (r.entries.size() < kEventCapacity) r.entries.emplace_back();
    Event& entry = r.entries[r.count % kEventCapacity];
    entry.subject.assign(subject);
    entry.detail.assign(detail);
    entry.number = ++r.count;
    entry.at_ns = now;
    entry.source = source;
    entry.action = action;
    entry.bytes = bytes;
  } catch (const std::bad_alloc&) {
    // Said in the header.
  }
}

std::vector<Event> events(uint64_t after, size_t limit) {
  Ring& r = ring();
  std::lock_guard lock(r.mutex);
  std::vector<Event> list;
  const uint64_t first = std::max(after, r.count - std::min<uint64_t>(r.count, r.entries.size()));
  for (uint64_t i = first; i < r.count && list.size() < limit; ++i) list.push_back(r.entries[i % kEventCapacity]);
  return list;
}

std::string events_json(uint64_t after) {
  std::string text;
  for (const Event& event : events(after)) {
    text += event.json();
    text += '\n';
  }
  return text;
}

uint64_t event_count() {
  Ring& r = ring();
  std::lock_guard lock(r.mutex);
  return r.count;
}

}  // namespace gpukit
