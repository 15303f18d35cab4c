// Partitions by name: who exists, what is left, which task runs where.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/scheduler/inspect/snapshot_registry.h"
#include "gpukit/scheduler/partition/partition.h"

namespace gpukit::scheduler {

class SessionOwner;

/// Without a device: accounts alone, what the limits add up to. Attached to one, the limits are enforced. Thread-safe.
class PartitionManager {
 public:
  explicit PartitionManager(const PartitionConfig& config = {}, std::optional<Device> device = std::nullopt);
  static std::shared_ptr<PartitionManager> with_memory(int64_t total_memory);

  const PartitionConfig& config() const { return config_; }
  std::optional<Device> device() const;
  /// Enforces the limits of every partition on `device` from now on. Throws Error when it is attached to another one,
  /// or when a partition does not get its share; nothing is attached then.
  void attach(Device device);

  /// The first one becomes the default. Throws ArgumentError for an id that exists, Error when too little is left.
  std::shared_ptr<Partition> create(const std::string& id, const std::string& name, const PartitionLimits& limits);
  /// Waits for work in flight, refuses new work, gives everything back. Throws ArgumentError for an unknown id, Error
  /// while sessions or contexts are in it; nothing has changed then.
  std::shared_ptr<Partition> remove(const std::string& id);
  /// Other limits: new work moves to them, work in flight finishes. Memory in use above a lower quota stays; nothing
  /// new is admitted until it is below.
  void resize(const std::string& id, const PartitionLimits& limits);
  std::shared_ptr<Partition> get(const std::string& id) const;  // null when unknown
  std::vector<std::string> ids() const;                         // in the order of their making
  PartitionUsage usage(const std::string& id) const;

  void assign_task(const std::string& task_id, const std::string& partition_id);
  /// The default partition's id for tasks that were not assigned; nullopt when there is none.
  std::optional<std::string> task_partition(const std::string& task_id) const;
  bool unassign_task(const std::string& task_id);
  void set_default(const std::string& id);
  std::optional<std::string> default_partition() const;

  PartitionStats stats() const;
  /// Removes all. Throws as remove() does.
  void clear();

  /// The enforced side; attaches to the default device where nothing was attached yet.
  std::shared_ptr<PartitionShare> share(const std::string& id);

 private:
  std::shared_ptr<Partition> find(const char* op, const std::string& id) const;
  void check_room(const char* op, const std::string& id, const PartitionLimits& limits) const;

  const PartitionConfig config_;
  std::mutex change_;  // creating, deleting, resizing, attaching: one at a time, may wait for the device
  mutable std::mutex mutex_;
  std::optional<Device> device_;
  std::vector<std::shared_ptr<Partition>> partitions_;
  std::map<std::string, std::string> tasks_;  // task to partition
  std::string default_;                       // empty: none
  const Listed<PartitionManager> listed_{*this};
};

}  // namespace gpukit::scheduler
