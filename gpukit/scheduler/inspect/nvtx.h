// Ranges for NVIDIA's profilers around every submission, where their library is present.
#pragma once

#include <atomic>

#include "gpukit/scheduler/inspect/trace_watch.h"

namespace gpukit::scheduler {

/// A submission is a range with its name on the thread that makes it, its wait at the gate included. Thread-safe.
class NvtxRanges final : public ProcessObserver {
 public:
  static NvtxRanges& instance();
  /// False, and nothing done, without the library.
  bool start();
  void stop();
  bool running() const { return running_.load(std::memory_order_relaxed); }

  // ProcessObserver
  void on_queued(Device device, const LaunchRecord& record) noexcept override;
  void on_launched(Device device, const LaunchRecord& record) noexcept override;
  void on_completed(Device device, const LaunchRecord& record) noexcept override;

 private:
  NvtxRanges() = default;
  std::atomic<bool> running_{false};
};

}  // namespace gpukit::scheduler
