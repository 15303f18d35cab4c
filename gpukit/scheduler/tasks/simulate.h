// A described workload, run through the real scheduler, admission and QoS on a virtual clock. No device is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/base/json.h"
#include "gpukit/scheduler/tasks/qos.h"
#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::scheduler {

struct WorkloadDevice {
  std::string name;
  int64_t memory = 0;
  int streams = 1;  // tasks that run at once
};

struct WorkloadContext {
  std::string name;
  size_t device = 0;
  ResourceRequirements memory;
  int64_t priority = 0;  // of its tasks that name none
};

struct WorkloadTask {
  std::string id;
  size_t context = 0;
  int64_t arrival_ns = 0, duration_ns = 0;
  int64_t memory = 0, priority = 0;
  TaskPolicy policy = TaskPolicy::priority;
  int64_t deadline_ns = 0;  // from its arrival; 0: none
  std::vector<size_t> after;
  bool fails = false;  // at its end
};

struct Workload {
  std::string name;
  std::vector<WorkloadDevice> devices;
  std::vector<WorkloadContext> contexts;
  std::vector<WorkloadTask> tasks;  // in the order of the file
  SchedulerConfig config;           // of each device's scheduler
};

/// {"name": text,
///  "scheduler": {"aging": n, "max_overtakes": n},
///  "devices":  [{"name": text, "memory": bytes, "streams": n}],
///  "contexts": [{"name": text, "device": name, "memory_request": bytes, "memory_limit": bytes, "priority": n}],
///  "tasks":    [{"id": text, "context": name, "arrival_ms": t, "duration_ms": t, "memory": bytes, "priority": n,
///                "policy": "priority" | "fifo" | "sjf", "after": [ids], "deadline_ms": t, "fails": bool,
///                "count": n, "every_ms": t}]}
/// Bytes are a number or a text such as "512 MiB". Required are devices, contexts, tasks; name and memory of a device;
/// name of a context; id and duration_ms of a task. A context without a device is on the first one, a task without a
/// context belongs to the first one. `count` makes tasks id-0, id-1, ..., `every_ms` apart.
/// Throws ArgumentError that names the field.
Workload read_workload(const Json& file);

enum class TaskOutcome : uint8_t { completed, failed, rejected };
const char* name(TaskOutcome outcome);  // "completed", ...

/// Times are nanoseconds of the virtual clock; -1: never.
struct SimulatedTask {
  TaskOutcome outcome = TaskOutcome::completed;
  std::string reason;  // empty when completed
  int64_t admitted_ns = -1, started_ns = -1, finished_ns = -1;
  int lane = -1;  // which of the device's streams ran it
};

struct SimulatedContext {
  QosEvaluation decision;
};

struct SimulatedDevice {
  std::vector<std::pair<int64_t, int64_t>> memory;  // time and bytes reserved from then on
  int64_t peak_memory = 0, busy_ns = 0;             // of all streams together
  std::vector<Decision> decisions;                  // of its scheduler
};

struct Simulation {
  Workload workload;
  std::vector<SimulatedTask> tasks;  // in the order of the workload, as are the others
  std::vector<SimulatedContext> contexts;
  std::vector<SimulatedDevice> devices;
  int64_t end_ns = 0;
};

/// Contexts are decided by QosPolicyEvaluator in their order. A task must pass the walls of its context: its own limit,
/// and for all but guaranteed contexts what the requests of higher classes leave. What does not pass waits outside the
/// scheduler; what never could is rejected. Then it is submitted to its device's scheduler. A running task whose
/// deadline comes is stopped. The same workload gives the same simulation.
Simulation simulate(const Workload& workload);

/// Lines of text: contexts, a row for each task, memory by time, a summary. `width` columns for the time.
std::string timeline_text(const Simulation& simulation, int width = 60);
std::string timeline_svg(const Simulation& simulation);
Json timeline_json(const Simulation& simulation);

namespace detail {

/// Milliseconds with three digits; the rest is cut off.
std::string milliseconds(int64_t ns);
/// `1.5 GiB`.
std::string bytes_text(int64_t bytes);

}  // namespace detail

}  // namespace gpukit::scheduler
