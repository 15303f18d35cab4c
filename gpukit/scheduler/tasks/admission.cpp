#include "gpukit/scheduler/tasks/admission.h"

#include <algorithm>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"

namespace gpukit::scheduler {

namespace {

constexpr double kLargestShare = 1e6;  // far above any use, far below the range of Share

std::string quoted(std::string_view text) {
  std::string quoted = "'";
  quoted += text;
  return quoted += "'";
}

void check_memory(const char* op, const char* argument, int64_t memory) {
  if (memory < 0) throw ArgumentError(op, argument, "not be negative", std::to_string(memory));
}

void check_share(const char* op, const char* argument, double share) {
  if (!(share >= 0 && share <= kLargestShare))
    throw ArgumentError(op, argument, "be a number from 0 to 1e6", number_text(share));
}

}  // namespace

Share Share::of(double part) { return {std::llround(part * static_cast<double>(kUnits))}; }

Share Share::of_memory(int64_t memory, int64_t whole) {
  if (whole <= 0 || memory <= 0) return {};
  if (memory >= whole) return {Share::kUnits};
  constexpr int64_t kHalf = 1'000'000, kLargest = INT64_MAX / kHalf;
  static_assert(kHalf * kHalf == Share::kUnits);
  for (; whole > kLargest; memory >>= 1) whole >>= 1;
  const int64_t scaled = memory * kHalf;  // in two steps: the product of memory and kUnits has too many digits
  return {scaled / whole * kHalf + scaled % whole * kHalf / whole};
}

AdmissionConfig::AdmissionConfig(int64_t max_memory, double max_bandwidth, size_t max_pending_tasks,
                                 bool enable_best_effort)
    : max_memory(max_memory),
      max_bandwidth(max_bandwidth),
      max_pending_tasks(max_pending_tasks),
      enable_best_effort(enable_best_effort) {
  check_memory("AdmissionConfig", "max_memory", max_memory);
  check_share("AdmissionConfig", "max_bandwidth", max_bandwidth);
}

const char* name(RejectReason value) {
  switch (value) {
    case RejectReason::insufficient_memory: return "InsufficientMemory";
    case RejectReason::insufficient_bandwidth: return "InsufficientBandwidth";
    case RejectReason::queue_full: return "QueueFull";
    case RejectReason::unsatisfiable_dependencies: return "UnsatisfiableDependencies";
    case RejectReason::custom: return "Custom";
  }
  return "";
}

const char* name(AdmissionKind value) {
  switch (value) {
    case AdmissionKind::admit: return "Admit";
    case AdmissionKind::reject: return "Reject";
    case AdmissionKind::queue: return "Queue";
  }
  return "";
}

std::string RejectReasonDetails::message() const {
  std::string message = name(reason);
  if (!text.empty()) message += ": " + text;
  message += ": " + std::to_string(requested_memory) + " bytes asked, " + std::to_string(available_memory) +
             " bytes available";
  return message;
}

AdmissionDecision AdmissionDecision::admitted(int64_t memory, double bandwidth) {
  AdmissionDecision decision;
  decision.reserved_memory = memory;
  decision.reserved_bandwidth = bandwidth;
  return decision;
}

AdmissionDecision AdmissionDecision::queued(size_t position, double estimated_wait_ms) {
  AdmissionDecision decision;
  decision.kind = AdmissionKind::queue;
  decision.queue_position = position;
  decision.estimated_wait_ms = estimated_wait_ms;
  return decision;
}

AdmissionDecision AdmissionDecision::rejected(RejectReasonDetails why) {
  AdmissionDecision decision;
  decision.kind = AdmissionKind::reject;
  decision.rejection = std::move(why);
  return decision;
}

AdmissionController::AdmissionController(const AdmissionConfig& config, size_t log_capacity)
    : config_(config), max_bandwidth_(Share::of(config.max_bandwidth)), log_(log_capacity) {}

AdmissionDecision AdmissionController::refuse(std::string_view task_id, RejectReason why, int64_t memory,
                                              Share bandwidth) {
  ++rejected_count_;
  const int64_t available = config_.max_memory - reserved_memory_;
  log_.add("admission", "reject", name(why), task_id, memory, available);
  RejectReasonDetails details{why, memory, available, ""};
  if (why == RejectReason::queue_full)
    details.text = std::to_string(queued_.size()) + " tasks wait, the limit";
  else if (why == RejectReason::insufficient_bandwidth)
    details.text = std::to_string(bandwidth.value()) + " needed, " +
                   std::to_string((max_bandwidth_ - reserved_bandwidth_).value()) + " left";
  return AdmissionDecision::rejected(std::move(details));
}

AdmissionDecision AdmissionController::try_admit(std::string_view task_id, int64_t memory, double bandwidth) {
  check_memory("AdmissionController.try_admit", "memory", memory);
  check_share("AdmissionController.try_admit", "bandwidth", bandwidth);
  const Share needed = std::max(Share::of(bandwidth), Share::of_memory(memory, config_.max_memory));

  std::lock_guard lock(mutex_);
  if (admitted_.find(task_id) != admitted_.end())
    throw ArgumentError("AdmissionController.try_admit", "task_id", "not be admitted already", quoted(task_id));
  const auto waiting = queued_.empty() ? queued_.end() : queued_.find(task_id);
  const bool known = waiting != queued_.end();
  if (!known && queued_.size() >= config_.max_pending_tasks)
    return refuse(task_id, RejectReason::queue_full, memory, needed);

  const int64_t available = config_.max_memory - reserved_memory_;
  const bool memory_fits = memory <= available;
  if (!memory_fits || needed > max_bandwidth_ - reserved_bandwidth_) {
    if (!config_.enable_best_effort)
      return refuse(task_id, memory_fits ? RejectReason::insufficient_bandwidth : RejectReason::insufficient_memory,
                    memory, needed);
    if (!known) queued_.emplace(task_id);
    ++queued_count_;
    log_.add("admission", "queue", memory_fits ? "bandwidth" : "memory", task_id, memory, available);
    return AdmissionDecision::queued(queued_.size());
  }

  admitted_.try_emplace(std::string(task_id), Reservation{memory, needed});
  if (known) queued_.erase(waiting);
  reserved_memory_ += memory;
  reserved_bandwidth_ = reserved_bandwidth_ + needed;
  ++admitted_count_;
  log_.add("admission", "admit", "fits", task_id, memory, available);
  return AdmissionDecision::admitted(memory, needed.value());
}

void AdmissionController::release(std::string_view task_id) {
  std::lock_guard lock(mutex_);
  if (const auto found = admitted_.find(task_id); found != admitted_.end()) {
    const Reservation held = found->second;
    admitted_.erase(found);
    reserved_memory_ -= held.memory;
    reserved_bandwidth_ = reserved_bandwidth_ - held.bandwidth;
    log_.add("admission", "release", "", task_id, held.memory, config_.max_memory - reserved_memory_);
    return;
  }
  const auto waiting = queued_.find(task_id);
  if (waiting == queued_.end())
    throw ArgumentError("AdmissionController.release", "task_id", "be admitted or queued", quoted(task_id));
  queued_.erase(waiting);
  log_.add("admission", "release", "queued", task_id, 0, config_.max_memory - reserved_memory_);
}

AdmissionStats AdmissionController::stats() const {
  std::lock_guard lock(mutex_);
  AdmissionStats stats;
  stats.admitted_count = admitted_count_;
  stats.rejected_count = rejected_count_;
  stats.queued_count = queued_count_;
  stats.pending_count = queued_.size();
  stats.reserved_memory = reserved_memory_;
  stats.reserved_bandwidth = reserved_bandwidth_.value();
  stats.available_memory = config_.max_memory - reserved_memory_;
  stats.available_bandwidth = (max_bandwidth_ - reserved_bandwidth_).value();
  return stats;
}

}  // namespace gpukit::scheduler
