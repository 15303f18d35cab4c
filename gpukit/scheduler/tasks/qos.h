// Quality of service: the class that follows from request and limit, what each class may reserve, and who gives way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpukit/scheduler/tasks/admission.h"

namespace gpukit::scheduler {

enum class QosClass : uint8_t { guaranteed = 0, burstable = 1, best_effort = 2 };

const char* name(QosClass value);  // "Guaranteed", ...
/// 100, 50, 0.
int priority(QosClass value);
/// Strictly higher class only.
bool can_preempt(QosClass value, QosClass other);
/// How far the limits of a class may exceed the memory there is: 1.0, 1.5, 2.0.
double memory_overcommit_ratio(QosClass value);
/// The part of the total bandwidth that requests of a class may fill: 1.0, 0.8, 0.5.
double bandwidth_ratio(QosClass value);

/// What a task asks for and the most it may take.
struct ResourceRequirements {
  int64_t memory_request = 0;
  std::optional<int64_t> memory_limit;  // none: whatever is left
  double bandwidth_request = 0.0;
  double bandwidth_limit = 1.0;

  ResourceRequirements() = default;
  /// Throws ArgumentError for a negative size, a share outside 0..1, or a limit below its request.
  explicit ResourceRequirements(int64_t memory_request, std::optional<int64_t> memory_limit = std::nullopt,
                                double bandwidth_request = 0.0, double bandwidth_limit = 1.0);
  static ResourceRequirements guaranteed(int64_t memory);
  /// The limit is `memory_request` times `burst_ratio`, which must be at least 1.
  static ResourceRequirements burstable(int64_t memory_request, double burst_ratio);
  static ResourceRequirements best_effort() { return {}; }

  /// Guaranteed: request and limit are equal and not 0. BestEffort: neither is given. Burstable: all others.
  QosClass qos_class() const;
};

/// What a class sets aside for requirements.
struct QosPolicy {
  QosClass qos_class = QosClass::best_effort;
  ResourceRequirements requirements;

  explicit QosPolicy(const ResourceRequirements& requirements)
      : qos_class(requirements.qos_class()), requirements(requirements) {}
  static QosPolicy guaranteed(int64_t memory);
  static QosPolicy burstable(int64_t memory_request, double burst_ratio);
  static QosPolicy best_effort() { return QosPolicy(ResourceRequirements()); }

  /// The limit of a guaranteed task, the request of a burstable one, nothing for the rest.
  int64_t memory_to_reserve() const;
  /// The request; nothing for best effort.
  double bandwidth_to_reserve() const;
};

struct QosTaskMeta {
  std::string id, name;
  QosPolicy policy;
  int64_t priority = 0;  // within the class

  static QosTaskMeta guaranteed(std::string id, std::string name, int64_t memory);
  static QosTaskMeta burstable(std::string id, std::string name, int64_t memory_request, double burst_ratio);
  static QosTaskMeta best_effort(std::string id, std::string name);

  QosClass qos_class() const { return policy.qos_class; }
  /// Limit over request: 1 for guaranteed tasks, 0 without a request or a limit.
  double burst_ratio() const;
  /// The class dominates: the priority within it counts up to 499,999 either way.
  int64_t effective_priority() const;
};

enum class QosDecision : uint8_t { admit, throttle, queue, reject };
const char* name(QosDecision value);  // "Admit", ...

struct QosEvaluation {
  QosDecision decision = QosDecision::reject;
  QosClass qos_class = QosClass::best_effort;
  std::string task_id;
  int64_t reserved_memory = 0;  // what reserve() will set aside
  double reserved_bandwidth = 0.0;
  std::string reject_reason;  // empty unless rejected
};

struct QosStats {
  int64_t total_memory = 0;
  double total_bandwidth = 0;
  int64_t guaranteed_memory = 0;
  double guaranteed_bandwidth = 0;
  int64_t burstable_memory = 0;
  int64_t best_effort_queue = 0;
  int64_t available_memory = 0;
  double available_bandwidth = 0;
};

/// Decides by class what may run beside what is already reserved. Thread-safe.
/// Guaranteed: Admit when the request fits, else Reject. Burstable: Reject when the request does not fit, Throttle when
/// only the limit or the bandwidth does not, else Admit. BestEffort: Admit while memory is left, else Queue.
class QosPolicyEvaluator {
 public:
  explicit QosPolicyEvaluator(int64_t total_memory, double total_bandwidth = 1.0);

  QosEvaluation evaluate(const QosTaskMeta& task);
  /// Sets aside what `evaluation` says. Throws Error for a rejected one and OutOfMemoryError when it no longer fits.
  void reserve(const QosEvaluation& evaluation);
  /// Gives back. Throws ArgumentError for more than is reserved in the class.
  void release(QosClass qos_class, int64_t memory, double bandwidth);
  QosStats stats() const;
  void reset();
  const DecisionLog& log() const { return log_; }

 private:
  int64_t available_locked() const { return total_memory_ - guaranteed_memory_ - burstable_memory_; }
  const int64_t total_memory_;
  const Share total_bandwidth_;
  mutable std::mutex mutex_;
  int64_t guaranteed_memory_ = 0, burstable_memory_ = 0, best_effort_queue_ = 0;
  Share guaranteed_bandwidth_, burstable_bandwidth_;
  DecisionLog log_;
  const Listed<QosPolicyEvaluator> listed_{*this};
};

/// What one tenant holds, for the choice of who gives memory up.
struct QosUsage {
  QosClass qos_class = QosClass::best_effort;
  int64_t priority = 0;
  int64_t request_bytes = 0;
  int64_t used_bytes = 0;
};

/// Indices of those above their request, the first to give way first, as Kubernetes ranks under pressure: by class
/// (BestEffort, Burstable, Guaranteed), then lower priority, then more bytes above the request, then the lower index.
/// Who stays within its request is not in the list.
std::vector<size_t> qos_eviction_order(std::span<const QosUsage> usages);

}  // namespace gpukit::scheduler
