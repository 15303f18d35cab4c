#include "gpukit/scheduler/partition/partition.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gpukit/base/error.h"
#include "gpukit/scheduler/partition/partition_share.h"

namespace gpukit::scheduler {

namespace {

double clamp_share(const char* argument, double share) {
  if (std::isnan(share)) throw ArgumentError("PartitionLimits", argument, "be a number from 0 to 1", "nan");
  return std::clamp(share, 0.0, 1.0);
}

int64_t check_quota(int64_t quota) {
  if (quota < 0) throw ArgumentError("PartitionLimits", "memory_quota", "be 0 or more", std::to_string(quota));
  return quota;
}

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

}  // namespace

PartitionLimits::PartitionLimits(int64_t memory_quota, double compute_share, double bandwidth_share, int max_streams)
    : memory_quota(check_quota(memory_quota)),
      compute_share(clamp_share("compute_share", compute_share)),
      bandwidth_share(clamp_share("bandwidth_share", bandwidth_share)),
      max_streams(max_streams) {
  if (max_streams < 1)
    throw ArgumentError("PartitionLimits", "max_streams", "be 1 or more", std::to_string(max_streams));
}

PartitionLimits PartitionLimits::memory(int64_t quota) const {
  PartitionLimits changed = *this;
  changed.memory_quota = check_quota(quota);
  return changed;
}

PartitionLimits PartitionLimits::compute(double share) const {
  PartitionLimits changed = *this;
  changed.compute_share = clamp_share("compute_share", share);
  return changed;
}

PartitionLimits PartitionLimits::bandwidth(double share) const {
  PartitionLimits changed = *this;
  changed.bandwidth_share = clamp_share("bandwidth_share", share);
  return changed;
}

PartitionConfig::PartitionConfig(int64_t total_memory, bool allow_overcommit, double overcommit_ratio)
    : total_memory(total_memory), allow_overcommit(allow_overcommit), overcommit_ratio(overcommit_ratio) {
  if (total_memory < 0)
    throw ArgumentError("PartitionConfig", "total_memory", "be 0 or more", std::to_string(total_memory));
  if (!(overcommit_ratio >= 1.0) || std::isinf(overcommit_ratio))
    throw ArgumentError("PartitionConfig", "overcommit_ratio", "be a number of 1 or more", text(overcommit_ratio));
}

Partition::Partition(std::string id, std::string name, const PartitionLimits& limits)
    : id_(std::move(id)), name_(std::move(name)), limits_(limits) {}

PartitionLimits Partition::limits() const {
  std::lock_guard lock(mutex_);
  return limits_;
}

std::vector<std::string> Partition::tasks() const {
  std::lock_guard lock(mutex_);
  return {tasks_.begin(), tasks_.end()};
}

bool Partition::enabled() const {
  std::lock_guard lock(mutex_);
  return enabled_;
}

std::shared_ptr<PartitionShare> Partition::share() const {
  std::lock_guard lock(mutex_);
  return share_;
}

PartitionUsage Partition::usage() const {
  if (auto attached = share()) return attached->usage();
  PartitionUsage usage;
  usage.memory_limit = limits().memory_quota;
  usage.note = "not attached to a device: nothing is measured or enforced";
  return usage;
}

double Partition::memory_utilization() const {
  const int64_t quota = limits().memory_quota;
  return quota == 0 ? 0.0 : static_cast<double>(usage().memory_used) / static_cast<double>(quota);
}

std::string str(const PartitionLimits& limits) {
  return "PartitionLimits(memory_quota=" + std::to_string(limits.memory_quota) +
         ", compute_share=" + text(limits.compute_share) + ", bandwidth_share=" + text(limits.bandwidth_share) +
         ", max_streams=" + std::to_string(limits.max_streams) + ")";
}

std::string str(const PartitionConfig& config) {
  return "PartitionConfig(total_memory=" + std::to_string(config.total_memory) +
         ", allow_overcommit=" + (config.allow_overcommit ? "True" : "False") +
         ", overcommit_ratio=" + text(config.overcommit_ratio) + ")";
}

std::string str(const PartitionUsage& usage) {
  return "PartitionUsage(memory_used=" + std::to_string(usage.memory_used) +
         ", memory_limit=" + std::to_string(usage.memory_limit) + ", sm_count=" + std::to_string(usage.sm_count) +
         ", sm_asked=" + std::to_string(usage.sm_asked) + ", total_kernels=" + std::to_string(usage.total_kernels) +
         ", compute_time_ms=" + text(usage.compute_time_ms) + ", bytes_copied=" + std::to_string(usage.bytes_copied) +
         ", enforced=" + (usage.enforced ? "True" : "False") + ")";
}

std::string str(const PartitionStats& stats) {
  return "PartitionStats(partition_count=" + std::to_string(stats.partition_count) +
         ", total_memory_allocated=" + std::to_string(stats.total_memory_allocated) +
         ", total_compute_allocated=" + text(stats.total_compute_allocated) +
         ", total_bandwidth_allocated=" + text(stats.total_bandwidth_allocated) +
         ", available_memory=" + std::to_string(stats.available_memory) + ")";
}

std::string str(const Partition& partition) {
  return "Partition(id='" + partition.id() + "', name='" + partition.name() + "', limits=" + str(partition.limits()) +
         ", enabled=" + (partition.enabled() ? "True" : "False") + ")";
}

}  // namespace gpukit::scheduler
