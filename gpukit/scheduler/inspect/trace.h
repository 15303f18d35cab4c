// A trace of the process: tasks, submissions, and what ran on each stream, in the trace-event format that
// chrome://tracing and ui.perfetto.dev read.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpukit/scheduler/inspect/trace_watch.h"

namespace gpukit::scheduler {

struct Task;

/// One submission that is over. Texts are numbers into TraceData::texts. Times are of the machine's clock.
struct TracedLaunch {
  Device device;
  uint64_t id = 0, stream = 0, bytes = 0;
  uint32_t name = 0, context = 0, note = 0;
  uint32_t thread = 0;  // that submitted it
  runtime::SubmitKind kind = runtime::SubmitKind::kernel;
  KernelState state = KernelState::completed;
  int code = 0;
  int64_t queued_ns = 0, launched_ns = 0, completed_ns = 0;
  double device_us = -1;  // negative: not measured
};

/// One task that has ended. Only tasks that ran have a started_ns of 0 or more.
struct TracedTask {
  uint64_t scheduler = 0;
  std::string id, name, error;
  const char* state = "";
  int64_t memory = 0, priority = 0;
  int64_t submitted_ns = -1, started_ns = -1, finished_ns = -1;
};

struct TraceData {
  int64_t started_ns = 0;
  std::vector<TracedLaunch> launches;
  std::vector<TracedTask> tasks;
  std::vector<std::string> texts;
  std::map<uint64_t, std::string> labels;  // of streams by id: whose they are
  uint64_t dropped = 0;                    // past the capacity
};

/// {"traceEvents": [...]}. Processes are the schedulers, the host's threads and each session with its streams as
/// threads. Complete events with ts and dur in microseconds since the start; on one thread they follow each other and
/// do not overlap. Arrows lead from a submission to its run.
///
/// How long something ran is measured on the device; where it ended is when the host saw it, so that a run lies at most
/// the waiter's delay after the truth. What a stream ran is laid end to end where several ends were seen at once.
std::string trace_json(const TraceData& data);

struct TraceStatus {
  bool running = false;
  uint64_t launches = 0, tasks = 0, dropped = 0;
};

/// The trace of the process. Thread-safe.
class Trace final : public ProcessObserver {
 public:
  static Trace& instance();

  /// Forgets the last trace and starts a new one of at most `capacity` launches and tasks. Throws Error when one runs,
  /// ArgumentError for a capacity of 0.
  void start(size_t capacity = 1'000'000);
  /// Ends it. Waits for what was submitted, `timeout_ns` at most; lets signals through. What is not over then is left
  /// out. Throws Error when none runs.
  void stop(int64_t timeout_ns = 5'000'000'000);
  TraceStatus status() const;
  /// What is over so far, or of the last trace.
  TraceData data() const;

  void note_task(uint64_t scheduler, const Task& task) noexcept;

  // ProcessObserver
  void on_stream(const runtime::ListedStream& listed) noexcept override;
  void on_queued(Device device, const LaunchRecord& record) noexcept override;
  void on_completed(Device device, const LaunchRecord& record) noexcept override;

 private:
  enum class Phase : uint8_t { off, on, ending };
  Trace() = default;
  uint32_t text(std::string_view value);
  bool room();

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  Phase phase_ = Phase::off;
  size_t capacity_ = 0;
  TraceData data_;
  std::unordered_map<std::string, uint32_t> known_texts_;
  std::map<std::pair<int, uint64_t>, uint32_t> open_;  // the submitting thread by device and id
};

}  // namespace gpukit::scheduler
