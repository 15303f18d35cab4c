// Partitions of a device: limits, what was obtained, what was used. A partition is a wall for memory, a set of SMs (or
// a share of GPU time where sets cannot be had) and a share of the copy bandwidth.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpukit/base/device.h"

namespace gpukit::scheduler {

class PartitionShare;  // partition_share.h

/// What a partition may use. Shares are clamped to 0..1. A share of 1 sets no limit of its own.
struct PartitionLimits {
  int64_t memory_quota = 0;  // bytes; 0: no wall of its own
  double compute_share = 1.0;
  double bandwidth_share = 1.0;
  int max_streams = 16;

  PartitionLimits() = default;
  /// Throws ArgumentError for negative sizes, no stream or a share that is no number.
  PartitionLimits(int64_t memory_quota, double compute_share, double bandwidth_share, int max_streams);
  static PartitionLimits with_memory(int64_t quota) { return PartitionLimits().memory(quota); }
  static PartitionLimits with_compute(double share) { return PartitionLimits().compute(share); }
  PartitionLimits memory(int64_t quota) const;
  PartitionLimits compute(double share) const;
  PartitionLimits bandwidth(double share) const;
  friend bool operator==(const PartitionLimits&, const PartitionLimits&) = default;
};

/// What all partitions of a manager have together.
struct PartitionConfig {
  int64_t total_memory = int64_t{8} << 30;
  /// Limits may add up to `overcommit_ratio` times what there is; a ratio of 1 leaves the sum unchecked. One partition
  /// alone never gets more than there is.
  bool allow_overcommit = false;
  double overcommit_ratio = 1.0;

  PartitionConfig() = default;
  PartitionConfig(int64_t total_memory, bool allow_overcommit, double overcommit_ratio);
};

/// Measured, except what an unattached manager cannot measure, which is 0.
struct PartitionUsage {
  int64_t memory_used = 0, memory_peak = 0, memory_limit = 0;
  int active_streams = 0;
  int64_t pending_kernels = 0, pending_transfers = 0;
  int64_t total_kernels = 0, total_transfers = 0;
  int64_t bytes_copied = 0;
  double bytes_per_second = 0;  // what its copies are paced to; 0: not paced
  double compute_time_ms = 0;   // on the device
  int sm_asked = 0;             // SMs the compute share comes to; 0: no share or not attached
  int sm_count = 0;             // SMs its work runs on; 0: not attached
  bool enforced = false;        // attached to a device
  bool paced = false;           // a share of GPU time instead of a set of SMs
  std::string note;             // what lies outside the walls
};

struct PartitionStats {
  int64_t partition_count = 0, active_partitions = 0;
  int64_t total_memory_allocated = 0;
  double total_compute_allocated = 0, total_bandwidth_allocated = 0;
  int64_t available_memory = 0;
  double available_compute = 0, available_bandwidth = 0;
};

/// One partition. Lives on after it was deleted, without resources. Thread-safe.
class Partition {
 public:
  Partition(std::string id, std::string name, const PartitionLimits& limits);
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  const std::string& id() const { return id_; }
  const std::string& name() const { return name_; }
  PartitionLimits limits() const;
  PartitionUsage usage() const;
  std::vector<std::string> tasks() const;  // sorted
  /// False once it was deleted.
  bool enabled() const;
  /// Used part of the memory quota, 0 without one.
  double memory_utilization() const;

 private:
  friend class PartitionManager;
  std::shared_ptr<PartitionShare> share() const;

  const std::string id_, name_;
  mutable std::mutex mutex_;
  PartitionLimits limits_;
  std::set<std::string> tasks_;
  bool enabled_ = true;
  std::shared_ptr<PartitionShare> share_;  // null until attached
};

std::string str(const PartitionLimits& limits);
std::string str(const PartitionConfig& config);
std::string str(const PartitionUsage& usage);
std::string str(const PartitionStats& stats);
std::string str(const Partition& partition);

}  // namespace gpukit::scheduler
