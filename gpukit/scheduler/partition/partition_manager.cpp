#include "gpukit/scheduler/partition/partition_manager.h"

#include <algorithm>
#include <limits>

#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/runtime/device.h"
#include "gpukit/scheduler/partition/partition_share.h"

namespace gpukit::scheduler {

namespace {

std::string quoted(const std::string& text) { return "'" + text + "'"; }

/// What the shares of a device may add up to.
double most_shares(const PartitionConfig& config) {
  if (!config.allow_overcommit) return 1.0;
  return config.overcommit_ratio > 1.0 ? config.overcommit_ratio : std::numeric_limits<double>::infinity();
}

}  // namespace

PartitionManager::PartitionManager(const PartitionConfig& config, std::optional<Device> device)
    : config_(config), device_(device) {}

std::shared_ptr<PartitionManager> PartitionManager::with_memory(int64_t total_memory) {
  return std::make_shared<PartitionManager>(PartitionConfig(total_memory, false, 1.0));
}

std::optional<Device> PartitionManager::device() const {
  std::lock_guard lock(mutex_);
  return device_;
}

std::shared_ptr<Partition> PartitionManager::find(const char* op, const std::string& id) const {
  if (auto found = get(id)) return found;
  throw ArgumentError(op, "partition id", "be one that exists", quoted(id));
}

std::shared_ptr<Partition> PartitionManager::get(const std::string& id) const {
  std::lock_guard lock(mutex_);
  for (const auto& partition : partitions_)
    if (partition->id() == id) return partition;
  return nullptr;
}

std::vector<std::string> PartitionManager::ids() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& partition : partitions_) ids.push_back(partition->id());
  return ids;
}

PartitionUsage PartitionManager::usage(const std::string& id) const { return find("usage", id)->usage(); }

/// Throws unless `limits` fit beside every partition but `id`.
void PartitionManager::check_room(const char* op, const std::string& id, const PartitionLimits& limits) const {
  const std::string where = std::string(op) + ": partition " + quoted(id) + " ";
  if (limits.memory_quota > config_.total_memory) {
    throw Error(where + "asks for " + std::to_string(limits.memory_quota) + " bytes and there are " +
                std::to_string(config_.total_memory));
  }
  if (config_.allow_overcommit && config_.overcommit_ratio <= 1.0) return;
  const double ratio = config_.allow_overcommit ? config_.overcommit_ratio : 1.0;
  double memory = 0, compute = 0, bandwidth = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto& partition : partitions_) {
      if (partition->id() == id) continue;
      const PartitionLimits other = partition->limits();
      memory += static_cast<double>(other.memory_quota);
      compute += reserved(other.compute_share);
      bandwidth += reserved(other.bandwidth_share);
    }
  }
  const double memory_left = static_cast<double>(config_.total_memory) * ratio - memory;
  if (static_cast<double>(limits.memory_quota) > memory_left) {
    throw Error(where + "asks for " + std::to_string(limits.memory_quota) + " bytes of memory and " +
                std::to_string(static_cast<int64_t>(std::max(memory_left, 0.0))) + " are left");
  }
  check_share(where, "compute", reserved(limits.compute_share), compute, ratio);
  check_share(where, "bandwidth", reserved(limits.bandwidth_share), bandwidth, ratio);
}

void PartitionManager::attach(Device device) {
  std::lock_guard one_at_a_time(change_);
  std::vector<std::shared_ptr<Partition>> list;
  {
    std::lock_guard lock(mutex_);
    if (device_ && !(*device_ == device))
      throw Error("attach: the manager is attached to " + str(*device_) + " and cannot move to " + str(device));
    list = partitions_;
  }
  std::vector<std::shared_ptr<PartitionShare>> shares;
  for (const auto& partition : list) {
    auto share = partition->share();
    shares.push_back(share != nullptr ? share
                                      : std::make_shared<PartitionShare>(partition->id(), partition->limits(), device,
                                                                         most_shares(config_)));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    std::lock_guard lock(list[i]->mutex_);
    list[i]->share_ = shares[i];
  }
  std::lock_guard lock(mutex_);
  device_ = device;
}

std::shared_ptr<Partition> PartitionManager::create(const std::string& id, const std::string& name,
                                                    const PartitionLimits& limits) {
  std::lock_guard one_at_a_time(change_);
  if (id.empty()) throw ArgumentError("create_partition", "id", "be a text", "''");
  if (get(id) != nullptr) throw ArgumentError("create_partition", "id", "be new", quoted(id) + ", which exists");
  check_room("create_partition", id, limits);
  auto partition = std::make_shared<Partition>(id, name, limits);
  if (auto where = device())
    partition->share_ = std::make_shared<PartitionShare>(id, limits, *where, most_shares(config_));
  std::lock_guard lock(mutex_);
  partitions_.push_back(partition);
  if (default_.empty()) default_ = id;
  note_event("partition", "create", id, limits.memory_quota, str(limits));
  return partition;
}

std::shared_ptr<Partition> PartitionManager::remove(const std::string& id) {
  std::lock_guard one_at_a_time(change_);
  std::shared_ptr<Partition> partition = find("delete_partition", id);
  std::shared_ptr<PartitionShare> share = partition->share();
  if (share != nullptr) share->close("delete_partition");
  {
    std::lock_guard lock(partition->mutex_);
    partition->enabled_ = false;
    partition->tasks_.clear();
  }
  std::lock_guard lock(mutex_);
  std::erase(partitions_, partition);
  std::erase_if(tasks_, [&](const auto& entry) { return entry.second == id; });
  if (default_ == id) default_ = partitions_.empty() ? "" : partitions_.front()->id();
  note_event("partition", "delete", id);
  return partition;
}

void PartitionManager::resize(const std::string& id, const PartitionLimits& limits) {
  std::lock_guard one_at_a_time(change_);
  std::shared_ptr<Partition> partition = find("resize_partition", id);
  check_room("resize_partition", id, limits);
  if (auto share = partition->share()) share->resize(limits);
  std::lock_guard lock(partition->mutex_);
  partition->limits_ = limits;
  note_event("partition", "resize", id, limits.memory_quota, str(limits));
}

void PartitionManager::assign_task(const std::string& task_id, const std::string& partition_id) {
  std::shared_ptr<Partition> partition = find("assign_task", partition_id);
  unassign_task(task_id);
  {
    std::lock_guard lock(mutex_);
    tasks_[task_id] = partition_id;
  }
  std::lock_guard lock(partition->mutex_);
  partition->tasks_.insert(task_id);
}

std::optional<std::string> PartitionManager::task_partition(const std::string& task_id) const {
  std::lock_guard lock(mutex_);
  if (auto found = tasks_.find(task_id); found != tasks_.end()) return found->second;
  return default_.empty() ? std::nullopt : std::optional(default_);
}

bool PartitionManager::unassign_task(const std::string& task_id) {
  std::string id;
  {
    std::lock_guard lock(mutex_);
    auto found = tasks_.find(task_id);
    if (found == tasks_.end()) return false;
    id = found->second;
    tasks_.erase(found);
  }
  if (auto partition = get(id)) {
    std::lock_guard lock(partition->mutex_);
    partition->tasks_.erase(task_id);
  }
  return true;
}

void PartitionManager::set_default(const std::string& id) {
  find("set_default", id);
  std::lock_guard lock(mutex_);
  default_ = id;
}

std::optional<std::string> PartitionManager::default_partition() const {
  std::lock_guard lock(mutex_);
  return default_.empty() ? std::nullopt : std::optional(default_);
}

PartitionStats PartitionManager::stats() const {
  PartitionStats stats;
  std::lock_guard lock(mutex_);
  for (const auto& partition : partitions_) {
    const PartitionLimits limits = partition->limits();
    ++stats.partition_count;
    if (partition->enabled()) ++stats.active_partitions;
    stats.total_memory_allocated += limits.memory_quota;
    stats.total_compute_allocated += reserved(limits.compute_share);
    stats.total_bandwidth_allocated += reserved(limits.bandwidth_share);
  }
  const double ratio = config_.allow_overcommit ? config_.overcommit_ratio : 1.0;
  const auto memory = static_cast<int64_t>(static_cast<double>(config_.total_memory) * ratio);
  stats.available_memory = std::max<int64_t>(memory - stats.total_memory_allocated, 0);
  stats.available_compute = std::max(ratio - stats.total_compute_allocated, 0.0);
  stats.available_bandwidth = std::max(ratio - stats.total_bandwidth_allocated, 0.0);
  return stats;
}

void PartitionManager::clear() {
  for (const std::string& id : ids()) remove(id);
}

std::shared_ptr<PartitionShare> PartitionManager::share(const std::string& id) {
  std::shared_ptr<Partition> partition = find("session", id);
  if (auto share = partition->share()) return share;
  attach(device().value_or(runtime::default_device()));
  auto share = partition->share();
  if (share == nullptr) throw Error("session: partition " + quoted(id) + " was deleted");
  return share;
}

}  // namespace gpukit::scheduler
