// Admission: whether a task may reserve its memory and bandwidth now, must wait, or is refused. Deterministic: the same
// requests in the same order give the same decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "gpukit/scheduler/inspect/snapshot_registry.h"
#include "gpukit/scheduler/tasks/decision_log.h"

namespace gpukit::scheduler {

/// A part of a whole as an exact number of units, so that what is taken and given back adds up to zero.
struct Share {
  static constexpr int64_t kUnits = 1'000'000'000'000;  // of 1.0
  int64_t units = 0;

  /// Rounds to the nearest unit.
  static Share of(double part);
  /// memory / whole, 1 at most, rounded down so that parts of a full memory never add up to more than one.
  static Share of_memory(int64_t memory, int64_t whole);
  double value() const { return static_cast<double>(units) / kUnits; }
  friend Share operator+(Share a, Share b) { return {a.units + b.units}; }
  friend Share operator-(Share a, Share b) { return {a.units - b.units}; }
  friend auto operator<=>(Share, Share) = default;
};

struct AdmissionConfig {
  int64_t max_memory = 0;
  double max_bandwidth = 1.0;
  size_t max_pending_tasks = 1000;
  bool enable_best_effort = true;  // what does not fit waits instead of being refused

  /// Throws ArgumentError for a negative size or a share that is negative or no number.
  AdmissionConfig(int64_t max_memory, double max_bandwidth, size_t max_pending_tasks = 1000,
                  bool enable_best_effort = true);
};

enum class RejectReason : uint8_t {
  insufficient_memory = 0,
  insufficient_bandwidth = 1,
  queue_full = 2,
  unsatisfiable_dependencies = 3,
  custom = 4,
};
const char* name(RejectReason value);  // "InsufficientMemory", ...

struct RejectReasonDetails {
  RejectReason reason = RejectReason::custom;
  int64_t requested_memory = 0;
  int64_t available_memory = 0;
  std::string text;  // the part of message() that numbers do not say

  std::string message() const;
};

enum class AdmissionKind : uint8_t { admit, reject, queue };
const char* name(AdmissionKind value);  // "Admit", ...

struct AdmissionDecision {
  AdmissionKind kind = AdmissionKind::admit;
  int64_t reserved_memory = 0;
  double reserved_bandwidth = 0;
  size_t queue_position = 0;     // tasks waiting, this one included; 0 unless queued
  double estimated_wait_ms = 0;  // 0 when nothing is known
  std::optional<RejectReasonDetails> rejection;

  static AdmissionDecision admitted(int64_t memory = 0, double bandwidth = 0);
  static AdmissionDecision queued(size_t position = 0, double estimated_wait_ms = 0);
  static AdmissionDecision rejected(RejectReasonDetails why);
};

struct AdmissionStats {
  uint64_t admitted_count = 0, rejected_count = 0, queued_count = 0;  // decisions so far
  size_t pending_count = 0;                                           // tasks that wait now
  int64_t reserved_memory = 0;
  double reserved_bandwidth = 0;
  int64_t available_memory = 0;
  double available_bandwidth = 0;
};

/// Keeps what admitted tasks reserved and what waits. The checks, in order: is the queue full (Reject), does the memory
/// fit, does the bandwidth. What does not fit is queued with enable_best_effort, else rejected. A task needs the
/// bandwidth it names, at least memory / max_memory. Thread-safe.
class AdmissionController {
 public:
  /// `log_capacity` entries of the log are kept.
  explicit AdmissionController(const AdmissionConfig& config, size_t log_capacity = 4096);

  /// Asking again for a queued task decides anew. Throws ArgumentError for an admitted id, a negative size, or a
  /// bandwidth that is negative or no number.
  AdmissionDecision try_admit(std::string_view task_id, int64_t memory, double bandwidth);
  /// Gives back what was really reserved, or leaves the queue. Throws ArgumentError for an unknown id.
  void release(std::string_view task_id);
  AdmissionStats stats() const;
  const AdmissionConfig& config() const { return config_; }
  const DecisionLog& log() const { return log_; }

 private:
  struct Reservation {
    int64_t memory;
    Share bandwidth;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  AdmissionDecision refuse(std::string_view task_id, RejectReason why, int64_t memory, Share bandwidth);

  const AdmissionConfig config_;
  const Share max_bandwidth_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Reservation, Hash, std::equal_to<>> admitted_;
  std::unordered_set<std::string, Hash, std::equal_to<>> queued_;
  int64_t reserved_memory_ = 0;
  Share reserved_bandwidth_;
  uint64_t admitted_count_ = 0, rejected_count_ = 0, queued_count_ = 0;
  DecisionLog log_;
  const Listed<AdmissionController> listed_{*this};
};

}  // namespace gpukit::scheduler
