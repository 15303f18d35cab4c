// Execution contexts: one model's stream, memory wall, share and futures.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/scheduler/context/context_session.h"
#include "gpukit/scheduler/context/kernel_future.h"
#include "gpukit/scheduler/partition/partition_share.h"
#include "gpukit/scheduler/tasks/qos.h"

namespace gpukit::scheduler {

enum class ContextState : uint8_t { idle = 0, running = 1, paused = 2 };
const char* name(ContextState state);  // "Idle", ...

struct ContextOptions {
  int64_t max_vram = 0;              // the wall; 0: the controller's budget alone
  int64_t base_vram = 0;             // what is kept for it
  std::optional<QosClass> qos = {};  // none: follows from the two
  double compute = 1.0;              // share of the SMs; 1: those without a share
  double bandwidth = 1.0;            // share of the copy bandwidth
  int device_id = 0;                 // 0: the controller's; else it must be that
  bool initialize = false;           // initialises a controller that is not
};

struct ContextStats {
  std::string llm_id;
  ContextState state = ContextState::idle;
  int stream_id = 0;
  int64_t max_vram = 0, used_vram = 0, available_vram = 0;
  int64_t buffer_count = 0;  // arrays alive and buffers tracked
};

/// Measured, beside what ContextStats has.
struct ContextUsage {
  int64_t base_vram = 0, peak_vram = 0, cached_vram = 0;
  QosClass qos = QosClass::best_effort;
  int sessions = 0;          // entered now
  int64_t launches = 0;      // everything submitted to its streams
  PartitionUsage partition;  // `enforced` only with a share of compute or bandwidth
};

/// One context of a controller. Thread-safe.
class ExecutionContext {
 public:
  /// `share` may be null. Called by the controller.
  ExecutionContext(std::string llm_id, int stream_id, const ContextOptions& options, QosClass qos,
                   std::shared_ptr<memory::Account> account, std::shared_ptr<PartitionShare> share, Device device);
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  const std::string& llm_id() const { return llm_id_; }
  int stream_id() const { return stream_id_; }
  int64_t max_vram() const { return options_.max_vram; }
  int64_t base_vram() const { return options_.base_vram; }
  QosClass qos() const { return qos_; }
  SessionOwner& session() { return *session_; }
  const memory::Account& account() const { return *session_->account(); }
  ContextStats stats(int64_t available_vram) const;
  ContextUsage usage() const;
  int64_t used_vram() const;

  /// Counts `size` bytes that were allocated elsewhere. False when they do not fit. Throws ArgumentError for an id that
  /// is tracked already.
  bool track_allocation(uint64_t buffer_id, int64_t size);
  /// Throws ArgumentError for an id that is not tracked.
  void track_deallocation(uint64_t buffer_id);

  /// A future that the caller drives by its marks.
  std::shared_ptr<KernelFuture> dispatch();
  /// Runs `submit` inside the context's session; what it submitted there is what the future waits for. What it throws
  /// fails the future. It may give bytes for KernelResult::output.
  std::shared_ptr<KernelFuture> dispatch(const std::function<std::optional<std::string>()>& submit);
  /// The same in pieces, for who has its own way into the session. After begin: either end, once what the future waits
  /// for was submitted, or fail.
  std::shared_ptr<KernelFuture> begin_dispatch();
  /// For one that dispatch() gave. False: it was cancelled.
  bool begin_dispatch(const std::shared_ptr<KernelFuture>& future);
  void end_dispatch(const std::shared_ptr<KernelFuture>& future);
  void fail_dispatch(const std::shared_ptr<KernelFuture>& future, const std::string& error);
  /// Throws ArgumentError for an unknown id; those long over are forgotten.
  std::shared_ptr<KernelFuture> future(uint64_t id) const;
  std::vector<uint64_t> pending_futures() const;
  AsyncExecStats async_stats() const;

  /// Waits for its work, cancels futures nobody launched, fails those nobody marked as over, gives everything back.
  /// Throws Error while a session is entered; nothing has changed then.
  void close();

 private:
  std::shared_ptr<KernelFuture> add_future();

  const std::string llm_id_;
  const int stream_id_;
  const ContextOptions options_;
  const QosClass qos_;
  const std::shared_ptr<PartitionShare> share_;  // null: none
  std::unique_ptr<SessionOwner> session_;
  mutable std::mutex mutex_;
  bool left_share_ = false;
  std::map<uint64_t, int64_t> buffers_;                       // tracked
  std::map<uint64_t, std::shared_ptr<driver::Event>> begun_;  // by future
  struct Futures;
  const std::shared_ptr<Futures> futures_;  // shared with the callbacks of futures
};

}  // namespace gpukit::scheduler
