// Launch requests by id: their order, their life-cycle, the in-flight limit of each stream. Bookkeeping only;
// dispatch_controller.h holds back real launches.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/scheduler/dispatch/dispatch_state.h"

namespace gpukit::scheduler {

using Extent3 = std::array<int64_t, 3>;

struct LaunchConfig {
  Extent3 grid{1, 1, 1};
  Extent3 block{256, 1, 1};
  int64_t shared_mem = 0;
  int64_t stream_id = 0;

  LaunchConfig() = default;
  /// Throws ArgumentError for an extent below 1 or a negative size.
  LaunchConfig(const Extent3& grid, const Extent3& block, int64_t shared_mem, int64_t stream_id);
  /// Enough blocks for one thread per element.
  static LaunchConfig linear(int64_t n_elements, int64_t block_size = 256);
  static LaunchConfig grid_2d(int64_t grid_x, int64_t grid_y, int64_t block_x, int64_t block_y);
  friend bool operator==(const LaunchConfig&, const LaunchConfig&) = default;
};

struct KernelLaunchRequest {
  uint64_t id = 0;
  uint64_t kernel_handle = 0;
  LaunchConfig config;
  std::vector<uint64_t> args;
  KernelState state = KernelState::queued;
  std::optional<std::string> task_id;
  int64_t priority = 0;  // higher goes first
  double queued_at = 0;  // seconds since 1970, or of a test's clock
  std::optional<double> launched_at, completed_at;
  std::optional<std::string> error;
  /// Seconds from launched to completed; nothing while one is missing.
  std::optional<double> duration() const;
};

struct DispatchStats {
  int64_t total_queued = 0, completed_count = 0, failed_count = 0, pending_count = 0, in_flight_count = 0;
  double avg_exec_time = 0;  // seconds, of completed ones
  std::map<int64_t, int64_t> launches_per_stream;
};

/// Ids count from 0. Thread-safe; each operation on one request is O(log n).
class KernelDispatcher {
 public:
  /// At most `max_in_flight` launched and not finished per stream. Throws ArgumentError below 1.
  explicit KernelDispatcher(int64_t max_in_flight = 4, Clock& clock = real_clock());
  int64_t max_in_flight() const { return max_in_flight_; }

  uint64_t queue(uint64_t kernel_handle, const LaunchConfig& config, std::vector<uint64_t> args = {},
                 std::optional<std::string> task_id = std::nullopt, int64_t priority = 0);
  /// What may be launched now, by priority, then in the order queued: at most `max`, and for each stream no more than
  /// its limit leaves. Changes nothing.
  std::vector<KernelLaunchRequest> get_ready(int64_t max) const;
  // Each is false when the request is unknown or not in a state for it.
  bool mark_launched(uint64_t id);  // also false when its stream is at the limit
  bool mark_completed(uint64_t id);
  bool mark_failed(uint64_t id, std::string error);
  /// Only what is queued: a launched kernel cannot be taken back.
  bool cancel(uint64_t id);

  std::optional<KernelLaunchRequest> get_request(uint64_t id) const;
  std::vector<KernelLaunchRequest> get_in_flight(int64_t stream_id) const;
  std::vector<KernelLaunchRequest> get_requests_for_task(const std::string& task_id) const;
  bool has_pending_work() const;  // queued or in flight
  DispatchStats stats() const;
  /// Forgets what is over; the counts stay. Returns how many.
  int64_t gc();
  void clear();

 private:
  struct Stream {
    std::set<std::pair<int64_t, uint64_t>> pending;  // (-priority, id)
    std::set<uint64_t> in_flight;
  };
  KernelLaunchRequest* find(uint64_t id, KernelState expected);
  void end(KernelLaunchRequest& request, KernelState state);

  const int64_t max_in_flight_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::map<uint64_t, KernelLaunchRequest> requests_;
  std::map<int64_t, Stream> streams_;
  std::map<std::string, std::set<uint64_t>> tasks_;
  std::vector<uint64_t> over_;
  DispatchStats stats_;
  double exec_seconds_ = 0;
  uint64_t next_id_ = 0;
};

/// Seconds since 1970 for the real clock, else the clock's own.
double timestamp(const Clock& clock);

}  // namespace gpukit::scheduler
