// Rare things that happened, in order: layers write, whoever wants to know reads. Counters are in metrics.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpukit {

/// One event. The texts of `source` and `action` are constants of the program.
struct Event {
  uint64_t number = 0;      // from 1, without gaps
  int64_t at_ns = 0;        // since 1970
  const char* source = "";  // "memory", "partition", "context", "device"
  const char* action = "";  // "evict", "create", "error", ...
  std::string subject;      // what it happened to
  int64_t bytes = 0;        // 0 where none are meant
  std::string detail;       // what the words above cannot say; mostly empty

  /// One line of JSON without the line end. Members that say nothing are left out.
  std::string json() const;
};

/// Keeps the event in the process's ring, where it replaces the oldest once the ring is full. Takes one lock for a
/// moment and calls nobody, so it may be used under any lock. What there is no memory for is not kept.
void note_event(const char* source, const char* action, std::string_view subject, int64_t bytes = 0,
                std::string_view detail = {}) noexcept;

/// Events with a number above `after`, oldest first, at most `limit`.
std::vector<Event> events(uint64_t after = 0, size_t limit = SIZE_MAX);
/// The same as lines of JSON, each ended by a line feed.
std::string events_json(uint64_t after = 0);
/// Events ever noted.
uint64_t event_count();
inline constexpr size_t kEventCapacity = 4096;

}  // namespace gpukit
