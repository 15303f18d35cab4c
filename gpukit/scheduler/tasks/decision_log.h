// What was decided, in order and with the reason: the same requests give the same log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace gpukit::scheduler {

/// One decision. The texts of `source`, `action` and `reason` are constants of the program.
struct Decision {
  uint64_t number = 0;      // from 1, without gaps
  int64_t at_ns = -1;       // time of the clock in use; negative for decisions that do not depend on time
  const char* source = "";  // "admission", "scheduler", "qos"
  const char* action = "";  // "admit", "queue", "reject", "start", ...
  const char* reason = "";  // why, in a word or two: "memory", "dependency failed"
  std::string subject;      // the task
  std::string detail;       // what the words above cannot say; mostly empty
  int64_t asked = 0;        // bytes
  int64_t available = 0;    // bytes left when it was decided; -1 when there is no limit

  /// One line of JSON without the line end. Members that say nothing (no time, empty texts) are left out.
  std::string json() const;
};

/// The last decisions in a ring. Numbers go on when old entries are overwritten. Thread-safe.
class DecisionLog {
 public:
  explicit DecisionLog(size_t capacity = 4096);

  /// Numbers `decision` and keeps it. In a full ring it reuses the memory of the entry it replaces.
  uint64_t add(const char* source, const char* action, const char* reason, std::string_view subject, int64_t asked = 0,
               int64_t available = 0, int64_t at_ns = -1, std::string_view detail = {});

  /// Decisions with a number above `after`, oldest first, at most `limit`.
  std::vector<Decision> read(uint64_t after = 0, size_t limit = SIZE_MAX) const;
  /// The same as lines of JSON, each ended by a line feed.
  std::string json_lines(uint64_t after = 0) const;
  /// Decisions ever made.
  uint64_t count() const;
  size_t capacity() const { return capacity_; }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<Decision> ring_;  // grows to capacity_, then wraps
  uint64_t count_ = 0;
};

}  // namespace gpukit::scheduler
