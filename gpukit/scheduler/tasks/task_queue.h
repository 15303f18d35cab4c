// Queues of tasks by rank: every operation is O(log n), removal of any task included.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpukit/scheduler/tasks/task.h"

namespace gpukit::scheduler {

/// A heap of tasks, lowest rank first, equal ranks in order of submission. Each task knows its place, so a task can be
/// in one queue at a time.
class TaskQueue {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  Task* top() const { return heap_.empty() ? nullptr : heap_.front().task; }
  void push(Task* task);
  void erase(Task* task);
  Task* pop();

 private:
  struct Entry {
    int64_t rank;
    uint64_t sequence;
    Task* task;
  };
  static bool before(const Entry& a, const Entry& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.sequence < b.sequence;
  }
  void place(size_t at, const Entry& entry);
  void sift_up(size_t at, const Entry& entry);
  void sift_down(size_t at, const Entry& entry);
  std::vector<Entry> heap_;  // four children a node: fewer cache lines than two
};

/// True when `a` starts before `b`.
inline bool starts_before(const Task& a, const Task& b) {
  return a.rank != b.rank ? a.rank < b.rank : a.sequence < b.sequence;
}

/// Tasks that wait for memory: the first by rank, and the first by rank among those that fit into what is free.
class MemoryQueue {
 public:
  bool empty() const { return occupied_ == 0; }
  size_t size() const { return size_; }
  void push(Task* task);
  void erase(Task* task);
  Task* first() const;
  /// The first that fits, or null. Of tasks about as large as `free_bytes` (same power of two) it sees the first only.
  Task* first_fitting(int64_t free_bytes) const;

 private:
  static unsigned size_class(int64_t bytes);
  std::array<TaskQueue, 64> queues_;  // by power of two
  uint64_t occupied_ = 0;             // a bit for each queue that is not empty
  size_t size_ = 0;
};

}  // namespace gpukit::scheduler
