// Those without a share where SMs cannot be divided, and what a device's copies reach.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "gpukit/runtime/stream_group.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"

namespace gpukit::scheduler {

/// The default session, contexts and partitions without a share. While partitions have shares of GPU time, these are
/// one more tenant, with the share that is left. Thread-safe.
class PartitionRest {
 public:
  static PartitionRest& of(Device device);

  /// The streams of `group` belong here.
  void add_group(const std::shared_ptr<runtime::StreamGroup>& group);
  /// They are of nobody from now on. The hook of the group is not touched.
  void remove_group(const std::shared_ptr<runtime::StreamGroup>& group);
  /// Work of `tenant`, which has limits of its own and no share, takes turns with those here, or does not any more.
  void set_guest(TenantId tenant, bool here);
  void add_share(double share);
  void remove_share(double share);

 private:
  explicit PartitionRest(Device device) : device_(device) {}
  void admit_stream(const std::shared_ptr<driver::Stream>& stream);
  void join_locked(runtime::StreamGroup& group, TenantId tenant);
  void change_locked(int shares, double total);

  const Device device_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<runtime::StreamGroup>> groups_;
  std::vector<TenantId> guests_;
  int shares_ = 0;
  double total_ = 0;
  TenantId tenant_ = kNoTenant;
};

/// Bytes a second that copies from page-locked memory reach on the device; measured at first use.
double copy_bandwidth(Device device);

}  // namespace gpukit::scheduler
