// Who has which SMs of a device. Sets are made of groups of the hardware's grain; what no set has belongs to the
// default session and to everyone else without a share.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "gpukit/driver/objects.h"
#include "gpukit/runtime/stream_group.h"

namespace gpukit::runtime {
struct DeviceState;
}

namespace gpukit::scheduler {

class SmGroups;

/// Some SMs and the stream groups on them. Gives its SMs back when it goes. Thread-safe.
class SmSet : public std::enable_shared_from_this<SmSet> {
 public:
  ~SmSet();
  SmSet(const SmSet&) = delete;
  SmSet& operator=(const SmSet&) = delete;

  int asked() const;     // SMs asked for
  int sm_count() const;  // SMs obtained
  /// A group of streams that runs here, and moves when the set is resized.
  std::shared_ptr<runtime::StreamGroup> make_group();
  /// A group made elsewhere runs here from now on.
  void adopt(const std::shared_ptr<runtime::StreamGroup>& group);
  /// Other SMs from now on; work in flight finishes where it is. Throws Error when none is left.
  void resize(int asked_sms);

 private:
  friend class SmGroups;
  explicit SmSet(SmGroups& owner) : owner_(owner) {}

  SmGroups& owner_;
  // All under the owner's lock.
  int asked_ = 0;
  std::vector<int> groups_;  // sorted
  std::shared_ptr<driver::GreenContext> green_;
  std::vector<std::weak_ptr<runtime::StreamGroup>> streams_;
};

/// The SMs of one device. Thread-safe.
class SmGroups {
 public:
  static SmGroups& of(Device device);

  /// Sets can be had: the driver has green contexts, there are two groups at least, and nobody switched them off.
  bool available();
  /// Without sets shares are shares of GPU time, as on older drivers. Counts where no set is taken.
  static void use_sets(bool on);
  int total_sms();
  /// SMs of the default session now.
  int default_sms();
  /// As near to that part of the groups as `asked_sms` is of all SMs, one at least; fewer when fewer are left. The
  /// default session always keeps some. Throws Error when no group is left, CudaError.
  std::shared_ptr<SmSet> take(int asked_sms);
  /// A group of streams on the SMs that no set has; it moves with the default session.
  std::shared_ptr<runtime::StreamGroup> make_group();
  /// A group of a set moves with the default session from now on. The set must go, or adopt it again.
  void adopt(const std::shared_ptr<runtime::StreamGroup>& group);
  /// Lets go of green contexts that are kept for sets that may come again.
  void forget_idle() noexcept;

 private:
  friend class SmSet;
  explicit SmGroups(runtime::DeviceState& state);
  void split();
  int total_locked() const;
  std::vector<int> choose(const std::vector<int>& own, int asked_sms) const;
  std::shared_ptr<driver::GreenContext> green_of(const std::vector<int>& groups, bool remainder);
  void drop_idle(size_t keep);
  void resize(SmSet& set, int asked_sms);
  void give_back(std::vector<int> groups, bool left = false) noexcept;
  void wait_for_groups(std::unique_lock<std::mutex>& lock);
  void move_rest();
  void give_back_after(const std::vector<std::shared_ptr<runtime::StreamGroup>>& streams, std::vector<int> groups);

  runtime::DeviceState& state_;
  std::mutex mutex_;
  std::unique_ptr<driver::SmSplit> split_;
  /// A green context by what it is made of. The same sets come again and again, and a driver may not give back all that
  /// it spends on each.
  struct Known {
    std::vector<int> groups;
    bool remainder;
    std::shared_ptr<driver::GreenContext> green;
  };
  std::vector<Known> known_;  // the last asked for at the end
  std::vector<int> free_;     // groups of no set, sorted
  int sets_ = 0;              // living ones, and groups of a resized one that still have work
  int leaving_ = 0;           // those groups of resized sets
  std::condition_variable left_;
  std::vector<std::weak_ptr<runtime::StreamGroup>> rest_;
};

}  // namespace gpukit::scheduler
