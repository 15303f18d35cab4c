// Transfers by id: their states, their order, their figures. Bookkeeping only; transfer_engine.h moves the bytes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpukit/base/clock.h"

namespace gpukit::runtime {

enum class TransferType : uint8_t { h2d, d2h, d2d };
enum class TransferState : uint8_t { queued, in_progress, completed, failed, cancelled };

const char* str(TransferType type);    // H2D
const char* str(TransferState state);  // InProgress
/// h2d, d2h or d2d in any case. Throws ArgumentError naming `op`.
TransferType to_transfer_type(const char* op, std::string_view text);

inline bool is_terminal(TransferState state) { return state >= TransferState::completed; }

/// One transfer. Each change of state says whether it was allowed; a finished transfer never changes.
struct TransferRecord {
  uint64_t id = 0;
  TransferType type = TransferType::h2d;
  uint64_t source = 0, destination = 0;
  size_t bytes = 0, bytes_done = 0;
  int priority = 0;  // higher goes first
  TransferState state = TransferState::queued;
  int64_t queued_ns = 0, started_ns = -1, finished_ns = -1;  // -1: not yet
  std::string error;
  std::optional<std::string> task_id;

  bool start(int64_t now);
  bool complete(int64_t now);
  bool fail(int64_t now, std::string why);
  bool cancel(int64_t now);

  /// The kind of stream it belongs to: 0 compute (D2D), 1 host to device, 2 device to host.
  int stream_id() const;
  /// Nanoseconds from queued to started, and from started to finished; nothing while not there yet.
  std::optional<int64_t> wait_ns() const;
  std::optional<int64_t> duration_ns() const;
  std::optional<double> gigabytes_per_second() const;
};

/// Sums over transfers.
struct TransferStats {
  int64_t total_queued = 0, completed_count = 0, failed_count = 0, cancelled_count = 0;
  int64_t pending_count = 0, in_progress_count = 0;
  int64_t total_bytes = 0, h2d_bytes = 0, d2h_bytes = 0;  // of completed ones
  int64_t h2d_ns = 0, d2h_ns = 0;

  /// The state of one transfer has changed from `before` to what `record` says.
  void moved(TransferState before, const TransferRecord& record);
  double h2d_gigabytes_per_second() const;  // 0 while none has completed
  double d2h_gigabytes_per_second() const;
};

/// Ids count from 0. At most `max_concurrent` transfers are in progress. Thread-safe; each operation is O(log n).
class TransferQueue {
 public:
  explicit TransferQueue(int64_t max_concurrent = 4, Clock& clock = real_clock());

  uint64_t enqueue(TransferType type, uint64_t source, uint64_t destination, size_t bytes, int priority = 0,
                   std::optional<std::string> task_id = std::nullopt);
  /// Starts up to `max` transfers: H2D before D2H before D2D, by priority, then in the order they came.
  std::vector<TransferRecord> take_ready(int64_t max);
  // Each is false when the transfer is unknown or not in a state for it. Ending one gives its place back.
  bool start(uint64_t id);  // also false when as many as allowed are in progress
  bool complete(uint64_t id);
  bool fail(uint64_t id, std::string error);
  bool cancel(uint64_t id);

  std::optional<TransferRecord> find(uint64_t id) const;
  std::vector<TransferRecord> in_progress_of(int stream_id) const;
  bool has_pending_work() const;
  TransferStats stats() const;
  int64_t max_concurrent() const { return max_concurrent_; }
  /// Forgets finished transfers; how many.
  int64_t collect();
  /// Forgets all transfers; the figures stay.
  void clear();

 private:
  using Key = std::pair<int64_t, uint64_t>;  // (-priority, id)
  template <typename Change>
  bool change(uint64_t id, Change&& apply);

  const int64_t max_concurrent_;
  Clock& clock_;
  mutable std::mutex mutex_;
  uint64_t next_id_ = 0;
  std::map<uint64_t, TransferRecord> records_;
  std::set<Key> waiting_[3];
  std::set<uint64_t> in_progress_;
  TransferStats stats_;
};

}  // namespace gpukit::runtime
