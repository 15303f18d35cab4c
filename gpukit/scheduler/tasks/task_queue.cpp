#include "gpukit/scheduler/tasks/task_queue.h"

#include <algorithm>
#include <bit>

namespace gpukit::scheduler {

namespace {

constexpr size_t kChildren = 4;

}  // namespace

void TaskQueue::place(size_t at, const Entry& entry) {
  heap_[at] = entry;
  entry.task->heap_at = at;
}

void TaskQueue::sift_up(size_t at, const Entry& entry) {
  while (at > 0) {
    const size_t parent = (at - 1) / kChildren;
    if (!before(entry, heap_[parent])) break;
    place(at, heap_[parent]);
    at = parent;
  }
  place(at, entry);
}

void TaskQueue::sift_down(size_t at, const Entry& entry) {
  for (;;) {
    const size_t first = at * kChildren + 1;
    if (first >= heap_.size()) break;
    const size_t last = std::min(first + kChildren, heap_.size());
    size_t best = first;
    for (size_t child = first + 1; child < last; ++child)
      if (before(heap_[child], heap_[best])) best = child;
    if (!before(heap_[best], entry)) break;
    place(at, heap_[best]);
    at = best;
  }
  place(at, entry);
}

void TaskQueue::push(Task* task) {
  heap_.emplace_back();
  sift_up(heap_.size() - 1, {task->rank, task->sequence, task});
}

void TaskQueue::erase(Task* task) {
  const size_t at = task->heap_at;
  task->heap_at = Task::kNotInHeap;
  const Entry moved = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return;  // it was the last one
  if (at > 0 && before(moved, heap_[(at - 1) / kChildren]))
    sift_up(at, moved);
  else
    sift_down(at, moved);
}

Task* TaskQueue::pop() {
  Task* task = top();
  if (task != nullptr) erase(task);
  return task;
}

unsigned MemoryQueue::size_class(int64_t bytes) {
  return static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(bytes)));  // 0..63
}

void MemoryQueue::push(Task* task) {
  const unsigned index = size_class(task->spec.memory_bytes);
  queues_[index].push(task);
  occupied_ |= uint64_t{1} << index;
  ++size_;
}

void MemoryQueue::erase(Task* task) {
  const unsigned index = size_class(task->spec.memory_bytes);
  queues_[index].erase(task);
  if (queues_[index].empty()) occupied_ &= ~(uint64_t{1} << index);
  --size_;
}

Task* MemoryQueue::first() const { return first_fitting(INT64_MAX); }

Task* MemoryQueue::first_fitting(int64_t free_bytes) const {
  Task* best = nullptr;
  for (uint64_t left = occupied_; left != 0; left &= left - 1) {
    Task* top = queues_[static_cast<unsigned>(std::countr_zero(left))].top();
    if (top->spec.memory_bytes > free_bytes) {
      if (size_class(top->spec.memory_bytes) > size_class(free_bytes)) break;
      continue;
    }
    if (best == nullptr || starts_before(*top, *best)) best = top;
  }
  return best;
}

}  // namespace gpukit::scheduler
