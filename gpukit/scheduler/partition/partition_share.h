// The enforced side of a partition: its account, its SMs or its weight, its pace of copies, its session.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/scheduler/context/context_session.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"
#include "gpukit/scheduler/partition/partition.h"
#include "gpukit/scheduler/partition/sm_groups.h"

namespace gpukit::scheduler {

/// What a share takes from the others: one that sets no limit of its own uses what is left, together with all such.
inline double reserved(double share) { return share < 1.0 ? share : 0.0; }
/// Throws Error, beginning with `where`, unless `asked` fits where others have `used` and all may have `most`.
void check_share(const std::string& where, const char* name, double asked, double used, double most);

class ShareClaims;  // of a device

/// What a partition has on one device. Thread-safe.
class PartitionShare {
 public:
  /// Takes what `limits` say, or throws and takes nothing: Error when no SM group is left or when the shares of the
  /// device, whoever has them, would add up to more than `most`, CudaError.
  PartitionShare(const std::string& id, const PartitionLimits& limits, Device device, double most = 1.0);
  ~PartitionShare();
  PartitionShare(const PartitionShare&) = delete;
  PartitionShare& operator=(const PartitionShare&) = delete;

  Device device() const { return device_; }
  SessionOwner& session() { return *session_; }
  const std::shared_ptr<memory::Account>& account() const { return session_->account(); }
  /// Another group of streams under the same limits, for a context inside the partition.
  std::shared_ptr<runtime::StreamGroup> make_group();
  /// Other limits from now on; work in flight finishes under the old ones. Nothing has changed when this throws.
  void resize(const PartitionLimits& limits);
  PartitionUsage usage() const;

  /// A context lives inside the partition; close() is refused until it was counted out.
  void enter_context();
  void leave_context();
  /// Waits for work in flight, refuses later work, gives everything back. Throws as SessionOwner::close does.
  void close(const char* op);

 private:
  enum class Mode { whole, sm_set, paced };
  Mode mode_for(double compute_share) const;
  void claim(const PartitionLimits& limits);
  void change_mode(Mode mode, double compute_share);
  std::vector<std::shared_ptr<runtime::StreamGroup>> living_groups() const;
  void admit_stream(const std::shared_ptr<driver::Stream>& stream);
  void give_up() noexcept;

  const std::string id_;
  const Device device_;
  const double most_;
  ShareClaims& claims_;
  DispatchController& controller_;
  TenantId tenant_ = kNoTenant;
  std::mutex change_;         // one resize at a time
  mutable std::mutex mutex_;  // what follows
  PartitionLimits limits_;
  PartitionLimits claimed_;  // of the device; no share at first
  Mode mode_ = Mode::whole;
  double paced_share_ = 0;
  double bytes_per_second_ = 0;
  std::shared_ptr<SmSet> sms_;
  std::vector<std::weak_ptr<runtime::StreamGroup>> groups_;
  int contexts_ = 0;
  bool given_up_ = false;
  PartitionUsage last_;  // once given up
  std::unique_ptr<SessionOwner> session_;
};

}  // namespace gpukit::scheduler
