// Where schedulers tell of ended tasks while a trace runs.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpukit::scheduler {

struct Task;

/// True while a trace runs.
extern constinit std::atomic<bool> g_tasks_traced;

/// Under the scheduler's lock. `scheduler`: its number.
void trace_task(uint64_t scheduler, const Task& task) noexcept;

/// One load and one branch while no trace runs.
inline void note_ended_task(uint64_t scheduler, const Task& task) noexcept {
  if (g_tasks_traced.load(std::memory_order_relaxed)) [[unlikely]]
    trace_task(scheduler, task);
}

}  // namespace gpukit::scheduler
