// Futures of kernels dispatched in an execution context.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gpukit/runtime/waiter.h"

namespace gpukit::scheduler {

enum class FutureState : uint8_t { pending = 0, running = 1, completed = 2, failed = 3, cancelled = 4 };
const char* name(FutureState state);  // "Pending", ...

struct KernelResult {
  bool success = false;
  std::string error;                  // empty on success
  double exec_time = 0;               // seconds
  std::optional<std::string> output;  // bytes
};

struct AsyncExecStats {
  int64_t total_dispatched = 0, pending_count = 0, running_count = 0, completed_count = 0, failed_count = 0,
          cancelled_count = 0;
  double avg_exec_time = 0;  // seconds, of those completed
};

/// How to launch. `linear` covers `num_elements` with blocks of `block_size`.
struct LaunchExtent {
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{256, 1, 1};
  uint32_t shared_mem = 0;
  static LaunchExtent linear(int64_t num_elements, int64_t block_size);
};

/// The end of one dispatched kernel. Whoever runs the work says when it is launched and over. Thread-safe.
class KernelFuture {
 public:
  KernelFuture(uint64_t id, int stream_id, std::string context_id);

  uint64_t id() const { return id_; }
  int stream_id() const { return stream_id_; }
  const std::string& context_id() const { return context_id_; }
  FutureState state() const;
  bool is_ready() const { return completion_->ready(); }
  /// The result once it is over, however it ended; nullopt after `timeout_ns` (negative: no limit). Sleeps; lets
  /// signals through.
  std::optional<KernelResult> wait(int64_t timeout_ns = -1) const;
  /// The result, or nullopt while it is not over.
  std::optional<KernelResult> try_get() const;
  /// Seconds, 0 until completed.
  double exec_time() const;
  const std::shared_ptr<runtime::Completion>& completion() const { return completion_; }

  /// Called once when it is over, before whoever waits is told. Set before the future is shared.
  void before_end(std::function<void()> callback) { before_end_ = std::move(callback); }

  // Each says whether the state was one it may follow.
  bool mark_launched();
  bool complete(double exec_time, std::optional<std::string> output = std::nullopt);
  bool fail(const std::string& error);
  /// Only before it was launched: work on a device cannot be taken back.
  bool cancel();
  void set_output(std::string output);

 private:
  KernelResult result() const;
  const uint64_t id_;
  const int stream_id_;
  const std::string context_id_;
  const std::shared_ptr<runtime::Completion> completion_;
  mutable std::mutex mutex_;
  FutureState state_ = FutureState::pending;
  KernelResult result_;
  std::function<void()> before_end_;
};

std::string str(const KernelFuture& future);

}  // namespace gpukit::scheduler
