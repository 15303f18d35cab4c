#include "gpukit/scheduler/tasks/qos.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"

namespace gpukit::scheduler {

namespace {

constexpr int64_t kClassStep = 1'000'000;  // between the effective priorities of neighbouring class levels

void check_share(const char* op, const char* argument, double share) {
  if (!(share >= 0 && share <= 1)) throw ArgumentError(op, argument, "be from 0 to 1", number_text(share));
}

void check_memory(const char* op, const char* argument, int64_t memory) {
  if (memory < 0) throw ArgumentError(op, argument, "not be negative", std::to_string(memory));
}

std::string does_not_fit(const char* what, const std::string& asked, const std::string& left) {
  return std::string(what) + " does not fit: " + asked + " asked, " + left + " left";
}

}  // namespace

const char* name(QosClass value) {
  switch (value) {
    case QosClass::guaranteed: return "Guaranteed";
    case QosClass::burstable: return "Burstable";
    case QosClass::best_effort: return "BestEffort";
  }
  return "";
}

int priority(QosClass value) {
  switch (value) {
    case QosClass::guaranteed: return 100;
    case QosClass::burstable: return 50;
    case QosClass::best_effort: return 0;
  }
  return 0;
}

bool can_preempt(QosClass value, QosClass other) { return priority(value) > priority(other); }

double memory_overcommit_ratio(QosClass value) {
  switch (value) {
    case QosClass::guaranteed: return 1.0;
    case QosClass::burstable: return 1.5;
    case QosClass::best_effort: return 2.0;
  }
  return 1.0;
}

double bandwidth_ratio(QosClass value) {
  switch (value) {
    case QosClass::guaranteed: return 1.0;
    case QosClass::burstable: return 0.8;
    case QosClass::best_effort: return 0.5;
  }
  return 1.0;
}

const char* name(QosDecision value) {
  switch (value) {
    case QosDecision::admit: return "Admit";
    case QosDecision::throttle: return "Throttle";
    case QosDecision::queue: return "Queue";
    case QosDecision::reject: return "Reject";
  }
  return "";
}

ResourceRequirements::ResourceRequirements(int64_t memory_request, std::optional<int64_t> memory_limit,
                                           double bandwidth_request, double bandwidth_limit)
    : memory_request(memory_request),
      memory_limit(memory_limit),
      bandwidth_request(bandwidth_request),
      bandwidth_limit(bandwidth_limit) {
  constexpr const char* op = "ResourceRequirements";
  check_memory(op, "memory_request", memory_request);
  check_share(op, "bandwidth_request", bandwidth_request);
  check_share(op, "bandwidth_limit", bandwidth_limit);
  if (memory_limit && *memory_limit < memory_request)
    throw ArgumentError(op, "memory_limit", "be at least memory_request = " + std::to_string(memory_request),
                        std::to_string(*memory_limit));
  if (bandwidth_limit < bandwidth_request)
    throw ArgumentError(op, "bandwidth_limit", "be at least bandwidth_request = " + std::to_string(bandwidth_request),
                        std::to_string(bandwidth_limit));
}

ResourceRequirements ResourceRequirements::guaranteed(int64_t memory) { return ResourceRequirements(memory, memory); }

ResourceRequirements ResourceRequirements::burstable(int64_t memory_request, double burst_ratio) {
  if (!(burst_ratio >= 1) || std::isinf(burst_ratio))
    throw ArgumentError("ResourceRequirements.burstable", "burst_ratio", "be at least 1", number_text(burst_ratio));
  check_memory("ResourceRequirements.burstable", "memory_request", memory_request);
  const double limit = std::floor(static_cast<double>(memory_request) * burst_ratio);
  constexpr auto most = std::numeric_limits<int64_t>::max();
  return ResourceRequirements(memory_request,
                              limit < 9.2e18 ? std::max(memory_request, static_cast<int64_t>(limit)) : most);
}

QosClass ResourceRequirements::qos_class() const {
  if (memory_request > 0 && memory_limit == memory_request) return QosClass::guaranteed;
  const bool asks = memory_request > 0 || memory_limit.has_value() || bandwidth_request > 0;
  return asks ? QosClass::burstable : QosClass::best_effort;
}

QosPolicy QosPolicy::guaranteed(int64_t memory) {
  QosPolicy policy(ResourceRequirements::guaranteed(memory));
  policy.qos_class = QosClass::guaranteed;  // even for no bytes at all
  return policy;
}

QosPolicy QosPolicy::burstable(int64_t memory_request, double burst_ratio) {
  QosPolicy policy(ResourceRequirements::burstable(memory_request, burst_ratio));
  policy.qos_class = QosClass::burstable;  // even at a ratio of 1
  return policy;
}

int64_t QosPolicy::memory_to_reserve() const {
  switch (qos_class) {
    case QosClass::guaranteed: return requirements.memory_limit.value_or(requirements.memory_request);
    case QosClass::burstable: return requirements.memory_request;
    case QosClass::best_effort: return 0;
  }
  return 0;
}

double QosPolicy::bandwidth_to_reserve() const {
  return qos_class == QosClass::best_effort ? 0.0 : requirements.bandwidth_request;
}

QosTaskMeta QosTaskMeta::guaranteed(std::string id, std::string name, int64_t memory) {
  return {std::move(id), std::move(name), QosPolicy::guaranteed(memory)};
}

QosTaskMeta QosTaskMeta::burstable(std::string id, std::string name, int64_t memory_request, double burst_ratio) {
  return {std::move(id), std::move(name), QosPolicy::burstable(memory_request, burst_ratio)};
}

QosTaskMeta QosTaskMeta::best_effort(std::string id, std::string name) {
  return {std::move(id), std::move(name), QosPolicy::best_effort()};
}

double QosTaskMeta::burst_ratio() const {
  const ResourceRequirements& needs = policy.requirements;
  if (needs.memory_request <= 0 || !needs.memory_limit) return 0.0;
  return static_cast<double>(*needs.memory_limit) / static_cast<double>(needs.memory_request);
}

int64_t QosTaskMeta::effective_priority() const {
  const int64_t within = std::clamp<int64_t>(priority, -kClassStep / 2 + 1, kClassStep / 2 - 1);
  return scheduler::priority(policy.qos_class) * kClassStep + within;
}

QosPolicyEvaluator::QosPolicyEvaluator(int64_t total_memory, double total_bandwidth)
    : total_memory_(total_memory), total_bandwidth_(Share::of(total_bandwidth)) {
  check_memory("QosPolicyEvaluator", "total_memory", total_memory);
  check_share("QosPolicyEvaluator", "total_bandwidth", total_bandwidth);
}

QosEvaluation QosPolicyEvaluator::evaluate(const QosTaskMeta& task) {
  const ResourceRequirements& needs = task.policy.requirements;
  const QosClass kind = task.qos_class();
  const Share bandwidth = Share::of(task.policy.bandwidth_to_reserve());
  QosEvaluation result;
  result.qos_class = kind;
  result.task_id = task.id;

  std::lock_guard lock(mutex_);
  const int64_t available = available_locked();
  const Share ceiling = Share::of(total_bandwidth_.value() * bandwidth_ratio(kind));
  const Share bandwidth_left = ceiling - guaranteed_bandwidth_ - burstable_bandwidth_;
  const bool request_fits = needs.memory_request <= available;
  const bool limit_fits = needs.memory_limit.value_or(needs.memory_request) <= available;
  const bool bandwidth_fits = bandwidth.units == 0 || bandwidth <= bandwidth_left;
  const char* reason = "fits";
  switch (kind) {
    case QosClass::guaranteed:
      result.decision = request_fits && bandwidth_fits ? QosDecision::admit : QosDecision::reject;
      if (result.decision == QosDecision::reject) reason = request_fits ? "bandwidth" : "memory";
      break;
    case QosClass::burstable:
      if (!request_fits) {
        result.decision = QosDecision::reject;
        reason = "memory";
      } else if (!limit_fits || !bandwidth_fits) {
        result.decision = QosDecision::throttle;
        reason = limit_fits ? "bandwidth" : "limit";
      } else {
        result.decision = QosDecision::admit;
      }
      break;
    case QosClass::best_effort:
      result.decision = available > 0 ? QosDecision::admit : QosDecision::queue;
      if (result.decision == QosDecision::queue) reason = "memory";
      break;
  }
  if (result.decision == QosDecision::reject) {
    result.reject_reason =
        request_fits ? does_not_fit("bandwidth", std::to_string(bandwidth.value()),
                                    std::to_string(std::max(bandwidth_left.value(), 0.0)))
                     : does_not_fit("memory", std::to_string(needs.memory_request), std::to_string(available));
  } else {
    result.reserved_memory = task.policy.memory_to_reserve();
    // A throttled task gets the bandwidth that is left instead of what it asked for.
    result.reserved_bandwidth = bandwidth_fits ? bandwidth.value() : std::max(bandwidth_left.value(), 0.0);
  }
  static constexpr const char* kActions[] = {"admit", "throttle", "queue", "reject"};
  log_.add("qos", kActions[static_cast<int>(result.decision)], reason, task.id, needs.memory_request, available);
  return result;
}

void QosPolicyEvaluator::reserve(const QosEvaluation& evaluation) {
  if (evaluation.decision == QosDecision::reject)
    throw Error("QosPolicyEvaluator.reserve: task '" + evaluation.task_id +
                "' was rejected: " + evaluation.reject_reason);
  const Share bandwidth = Share::of(evaluation.reserved_bandwidth);
  std::lock_guard lock(mutex_);
  if (evaluation.qos_class == QosClass::best_effort) {
    if (evaluation.decision == QosDecision::queue) ++best_effort_queue_;
    return;
  }
  const int64_t available = available_locked();
  const Share bandwidth_left = total_bandwidth_ - guaranteed_bandwidth_ - burstable_bandwidth_;
  if (evaluation.reserved_memory > available || (bandwidth.units > 0 && bandwidth > bandwidth_left))
    throw OutOfMemoryError("QosPolicyEvaluator.reserve: " + std::to_string(evaluation.reserved_memory) +
                               " bytes and bandwidth " + std::to_string(bandwidth.value()) +
                               " no longer fit: " + std::to_string(available) + " bytes and " +
                               std::to_string(bandwidth_left.value()) + " left",
                           evaluation.reserved_memory, total_memory_ - available, total_memory_);
  if (evaluation.qos_class == QosClass::guaranteed) {
    guaranteed_memory_ += evaluation.reserved_memory;
    guaranteed_bandwidth_ = guaranteed_bandwidth_ + bandwidth;
  } else {
    burstable_memory_ += evaluation.reserved_memory;
    burstable_bandwidth_ = burstable_bandwidth_ + bandwidth;
  }
}

void QosPolicyEvaluator::release(QosClass qos_class, int64_t memory, double bandwidth) {
  constexpr const char* op = "QosPolicyEvaluator.release";
  check_memory(op, "memory", memory);
  check_share(op, "bandwidth", bandwidth);
  std::lock_guard lock(mutex_);
  if (qos_class == QosClass::best_effort) {
    // An admitted best-effort task holds nothing, so there may be nothing to give back.
    best_effort_queue_ = std::max<int64_t>(best_effort_queue_ - 1, 0);
    return;
  }
  const bool guaranteed = qos_class == QosClass::guaranteed;
  int64_t& held = guaranteed ? guaranteed_memory_ : burstable_memory_;
  Share& held_bandwidth = guaranteed ? guaranteed_bandwidth_ : burstable_bandwidth_;
  const Share given = Share::of(bandwidth);
  if (memory > held)
    throw ArgumentError(op, "memory", "be at most the reserved " + std::to_string(held), std::to_string(memory));
  if (given > held_bandwidth)
    throw ArgumentError(op, "bandwidth", "be at most the reserved " + std::to_string(held_bandwidth.value()),
                        std::to_string(bandwidth));
  held -= memory;
  held_bandwidth = held_bandwidth - given;
}

QosStats QosPolicyEvaluator::stats() const {
  std::lock_guard lock(mutex_);
  QosStats stats;
  stats.total_memory = total_memory_;
  stats.total_bandwidth = total_bandwidth_.value();
  stats.guaranteed_memory = guaranteed_memory_;
  stats.guaranteed_bandwidth = guaranteed_bandwidth_.value();
  stats.burstable_memory = burstable_memory_;
  stats.best_effort_queue = best_effort_queue_;
  stats.available_memory = available_locked();
  stats.available_bandwidth = (total_bandwidth_ - guaranteed_bandwidth_ - burstable_bandwidth_).value();
  return stats;
}

void QosPolicyEvaluator::reset() {
  std::lock_guard lock(mutex_);
  guaranteed_memory_ = burstable_memory_ = best_effort_queue_ = 0;
  guaranteed_bandwidth_ = burstable_bandwidth_ = {};
}

std::vector<size_t> qos_eviction_order(std::span<const QosUsage> usages) {
  std::vector<size_t> order;
  for (size_t i = 0; i < usages.size(); ++i)
    if (usages[i].used_bytes > usages[i].request_bytes) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const QosUsage &x = usages[a], &y = usages[b];
    if (x.qos_class != y.qos_class) return priority(x.qos_class) < priority(y.qos_class);
    if (x.priority != y.priority) return x.priority < y.priority;
    const int64_t over_x = x.used_bytes - x.request_bytes, over_y = y.used_bytes - y.request_bytes;
    return over_x != over_y ? over_x > over_y : a < b;
  });
  return order;
}

}  // namespace gpukit::scheduler
