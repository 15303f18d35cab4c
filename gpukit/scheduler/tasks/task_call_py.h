// A Python callable as a task, and how it is called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gpukit/python/bind.h"
#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::python {

/// The TaskPolicy of pygpukit.scheduler; the numbers are those of QosClass.
enum class CallPolicy : uint8_t { guaranteed = 0, burstable = 1, best_effort = 2 };
/// The enum, or its name in lower case. Throws ArgumentError.
CallPolicy to_policy(nb::handle value);
const char* policy_name(CallPolicy policy);          // "best_effort"
const char* state_name(scheduler::CallState state);  // "pending"

/// A callable and what became of it. The GIL guards all of it but the record.
struct CallTask {
  CallTask() = default;
  CallTask(const CallTask&) = delete;
  CallTask& operator=(const CallTask&) = delete;
  ~CallTask() { *here = nullptr; }

  nb::object fn, result, exception, context;
  std::optional<int64_t> memory;
  std::optional<double> bandwidth;
  CallPolicy policy = CallPolicy::best_effort;
  std::string id;
  double last_launch = 0.0;  // seconds since 1970
  int64_t execution_count = 0, pacing_delay_count = 0;
  scheduler::CallState own_state = scheduler::CallState::pending;  // of a task that no scheduler has
  std::shared_ptr<scheduler::Scheduler> scheduler;
  std::shared_ptr<scheduler::Task> record;
  /// For the work, which must not own the task: the task owns the work. Null inside once the task is gone.
  const std::shared_ptr<CallTask*> here = std::make_shared<CallTask*>(this);

  scheduler::CallState state() const;
};

/// Eight hexadecimal digits that differ for 2^32 calls.
std::string new_task_id();

/// The work of the task at `here`, for any thread that does not hold the GIL. Keeps the task alive meanwhile.
/// Throws Error with the text of what the callable raised, or when the task is gone.
void call_python(const std::shared_ptr<CallTask*>& here);

/// Raises SystemExit in the callables that worker threads run now. The GIL is held.
void interrupt_callables();
/// Threads that are in a callable now never come back from it, and none enters one: the interpreter is about to go.
void forbid_python() noexcept;

namespace detail {
void enter_stepping();
void leave_stepping();
[[noreturn]] void raise_interrupt();
}  // namespace detail

/// Runs `f()`, which may run tasks on this thread, without the GIL. What is no Exception (KeyboardInterrupt,
/// SystemExit) and was raised by a callable is raised here; such a callable on a worker thread only fails its task.
template <typename F>
auto run_stepping(F&& f) {
  struct Inside {
    Inside() { detail::enter_stepping(); }
    ~Inside() { detail::leave_stepping(); }
  };
  try {
    GilReleased released;
    const Inside inside;
    return f();
  } catch (const scheduler::Interrupted&) {
  }
  detail::raise_interrupt();
}

}  // namespace gpukit::python
