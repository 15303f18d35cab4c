#include "gpukit/scheduler/tasks/decision_log.h"

#include <algorithm>

#include "gpukit/base/json.h"

namespace gpukit::scheduler {

std::string Decision::json() const {
  Json line = Json::object();
  line.set("number", static_cast<int64_t>(number));
  if (at_ns >= 0) line.set("at_ns", at_ns);
  line.set("source", source);
  line.set("action", action);
  if (*reason != '\0') line.set("reason", reason);
  line.set("subject", subject);
  if (!detail.empty()) line.set("detail", detail);
  line.set("asked", asked);
  line.set("available", available);
  return line.dump();
}

DecisionLog::DecisionLog(size_t capacity) : capacity_(std::max<size_t>(capacity, 1)) {}

uint64_t DecisionLog::add(const char* source, const char* action, const char* reason, std::string_view subject,
                          int64_t asked, int64_t available, int64_t at_ns, std::string_view detail) {
  std::lock_guard lock(mutex_);
  if (ring_.size() < capacity_) ring_.emplace_back();
  Decision& entry = ring_[count_ % capacity_];
  entry.number = ++count_;
  entry.at_ns = at_ns;
  entry.source = source;
  entry.action = action;
  entry.reason = reason;
  entry.subject.assign(subject);
  entry.detail.assign(detail);
  entry.asked = asked;
  entry.available = available;
  return count_;
}

std::vector<Decision> DecisionLog::read(uint64_t after, size_t limit) const {
  std::lock_guard lock(mutex_);
  std::vector<Decision> entries;
  const uint64_t oldest = count_ - ring_.size();
  const uint64_t first = std::max(after, oldest);
  if (first >= count_) return entries;
  const size_t size = std::min<uint64_t>(count_ - first, limit);
  entries.reserve(size);
  for (size_t i = 0; i < size; ++i) entries.push_back(ring_[(first + i) % capacity_]);
  return entries;
}

std::string DecisionLog::json_lines(uint64_t after) const {
  std::string text;
  for (const Decision& entry : read(after)) {
    text += entry.json();
    text += '\n';
  }
  return text;
}

uint64_t DecisionLog::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace gpukit::scheduler
