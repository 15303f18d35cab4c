// Who is told of every submission of the process, on whatever device and stream.
#pragma once

#include "gpukit/runtime/stream_list.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"

namespace gpukit::scheduler {

/// Told on the thread where it happens, with no lock held. Lives as long as the process.
class ProcessObserver {
 public:
  virtual ~ProcessObserver() = default;
  /// A stream whose submissions will be told.
  virtual void on_stream(const runtime::ListedStream&) noexcept {}
  virtual void on_queued(Device, const LaunchRecord&) noexcept {}
  virtual void on_launched(Device, const LaunchRecord&) noexcept {}
  /// Completed, failed or cancelled.
  virtual void on_completed(Device, const LaunchRecord&) noexcept {}
};

/// Puts the dispatch controllers at the gate of every stream, those made later included. Four observers at most; adding
/// one twice does nothing. Throws Error.
void add_process_observer(ProcessObserver& observer);
/// It may still be told what another thread is just telling. With the last one gone the gates are as before.
void remove_process_observer(ProcessObserver& observer);

}  // namespace gpukit::scheduler
