#include "gpukit/scheduler/partition/partition_share.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/log.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/device.h"
#include "gpukit/scheduler/partition/partition_rest.h"

namespace gpukit::scheduler {

using runtime::StreamGroup;

namespace {

constexpr const char* kOutside =
    "L2, HBM and copy engines are shared. Other libraries in the process are outside the walls: what they allocate, "
    "launch and copy is neither limited nor counted here";

/// The fair order needs some weight.
constexpr double kLeastWeight = 0.001;

memory::Pool* pool_of(Device device) {
  return dynamic_cast<memory::Pool*>(runtime::open_device(device).resource.get());
}

std::shared_ptr<memory::Account> make_account(const std::string& id, const PartitionLimits& limits, Device device) {
  memory::Pool* pool = pool_of(device);
  return memory::Account::create("partition:" + id, device, static_cast<size_t>(limits.memory_quota), false,
                                 pool != nullptr ? pool->root() : nullptr);
}

int sms_of_share(Device device, double share) {
  return static_cast<int>(std::lround(share * SmGroups::of(device).total_sms()));
}

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

/// Shares are sums of decimal fractions.
constexpr double kShareSlack = 1e-9;

double rate_of_share(Device device, double share) { return share < 1.0 ? share * copy_bandwidth(device) : 0.0; }

}  // namespace

void check_share(const std::string& where, const char* name, double asked, double used, double most) {
  if (asked <= most - used + kShareSlack) return;
  throw Error(where + "asks for a " + name + " share of " + number(asked) + " and " +
              number(std::max(most - used, 0.0)) + " is left");
}

/// What the shares of a device add up to, whoever gave them.
class ShareClaims {
 public:
  static ShareClaims& of(Device device) {
    struct Table {
      std::mutex mutex;
      std::map<runtime::DeviceState*, ShareClaims> claims;
    };
    static auto* table = new Table;
    runtime::DeviceState& state = runtime::open_device(device);
    std::lock_guard lock(table->mutex);
    return table->claims[&state];
  }

  /// `after` in place of `before`. Less than before always fits.
  void change(const std::string& where, const PartitionLimits& before, const PartitionLimits& after, double most) {
    std::lock_guard lock(mutex_);
    const double compute = compute_ - reserved(before.compute_share);
    const double bandwidth = bandwidth_ - reserved(before.bandwidth_share);
    const double asked_compute = reserved(after.compute_share), asked_bandwidth = reserved(after.bandwidth_share);
    if (asked_compute > reserved(before.compute_share)) check_share(where, "compute", asked_compute, compute, most);
    if (asked_bandwidth > reserved(before.bandwidth_share))
      check_share(where, "bandwidth", asked_bandwidth, bandwidth, most);
    compute_ = compute + asked_compute;
    bandwidth_ = bandwidth + asked_bandwidth;
  }

 private:
  std::mutex mutex_;
  double compute_ = 0, bandwidth_ = 0;
};

PartitionShare::PartitionShare(const std::string& id, const PartitionLimits& limits, Device device, double most)
    : id_(id),
      device_(device),
      most_(most),
      claims_(ShareClaims::of(device)),
      controller_(DispatchController::of(device)),
      limits_(limits) {
  bytes_per_second_ = rate_of_share(device, limits.bandwidth_share);
  tenant_ = controller_.add_tenant({"partition:" + id, 0.0, bytes_per_second_});
  try {
    claim(limits);
    change_mode(mode_for(limits.compute_share), limits.compute_share);
    session_ = std::make_unique<SessionOwner>("partition '" + id + "'", device, make_group(),
                                              make_account(id, limits, device));
  } catch (...) {
    give_up();
    throw;
  }
}

void PartitionShare::claim(const PartitionLimits& limits) {
  claims_.change(str(device_) + ": partition '" + id_ + "' ", claimed_, limits, most_);
  claimed_ = limits;
}

PartitionShare::~PartitionShare() {
  for (const auto& group : living_groups()) group->set_hook({});
  give_up();
}

void PartitionShare::enter_context() {
  std::lock_guard lock(mutex_);
  if (given_up_) throw Error("partition '" + id_ + "': it was deleted");
  ++contexts_;
}

void PartitionShare::leave_context() {
  std::lock_guard lock(mutex_);
  --contexts_;
}

void PartitionShare::close(const char* op) {
  {
    std::lock_guard lock(mutex_);
    if (contexts_ > 0) {
      throw Error(std::string(op) + ": partition '" + id_ + "' has " + std::to_string(contexts_) +
                  " context(s) in it; destroy them first");
    }
  }
  session_->close(op);
  give_up();
}

void PartitionShare::give_up() noexcept {
  // One that fails keeps none of the others.
  auto step = [&](auto&& action) {
    try {
      action();
    } catch (const std::exception& error) {
      log(LogLevel::error, "partition '" + id_ + "': giving up its share found " + error.what());
    }
  };
  PartitionUsage last;
  if (session_ != nullptr) step([&] { last = usage(); });
  std::shared_ptr<SmSet> sms;  // gives its SMs back without the lock
  Mode mode = Mode::whole;
  {
    std::lock_guard lock(mutex_);
    if (given_up_) return;
    given_up_ = true;
    last_ = std::move(last);
    sms = std::move(sms_);
    mode = std::exchange(mode_, Mode::whole);
  }
  step([&] { PartitionRest::of(device_).set_guest(tenant_, false); });
  step([&] { controller_.remove_tenant(tenant_); });
  if (mode == Mode::paced) step([&] { PartitionRest::of(device_).remove_share(paced_share_); });
  step([&] { claim(PartitionLimits()); });
  if (session_ == nullptr) return;
  step([&] { account()->close(); });
  step([&] {
    if (memory::Pool* pool = pool_of(device_)) pool->forget(*account());
  });
}

PartitionShare::Mode PartitionShare::mode_for(double compute_share) const {
  if (compute_share >= 1.0) return Mode::whole;
  return SmGroups::of(device_).available() ? Mode::sm_set : Mode::paced;
}

/// From any mode to any other.
void PartitionShare::change_mode(Mode mode, double compute_share) {
  SmGroups& all = SmGroups::of(device_);
  const std::vector<std::shared_ptr<StreamGroup>> groups = living_groups();
  std::shared_ptr<SmSet> sms;
  {
    std::lock_guard lock(mutex_);
    sms = sms_;
  }
  if (mode == Mode::sm_set) {
    const int asked = sms_of_share(device_, compute_share);
    if (sms != nullptr) {
      sms->resize(asked);
    } else {
      sms = all.take(asked);
      try {
        for (const auto& group : groups) sms->adopt(group);
      } catch (...) {
        for (const auto& group : groups) all.adopt(group);
        throw;
      }
    }
  } else if (sms != nullptr) {
    for (const auto& group : groups) all.adopt(group);
    sms = nullptr;
  }
  const bool paced = mode == Mode::paced;
  controller_.set_weight(tenant_, paced ? std::max(compute_share, kLeastWeight) : 0.0);
  std::shared_ptr<SmSet> left;  // gives its SMs back without the lock
  PartitionRest& rest = PartitionRest::of(device_);
  std::lock_guard lock(mutex_);
  // In this order: without any share for a moment, those that wait would all pass.
  if (paced) rest.add_share(compute_share);
  if (mode_ == Mode::paced) rest.remove_share(paced_share_);
  rest.set_guest(tenant_, mode == Mode::whole);
  paced_share_ = paced ? compute_share : 0;
  mode_ = mode;
  left = std::exchange(sms_, std::move(sms));
}

std::vector<std::shared_ptr<StreamGroup>> PartitionShare::living_groups() const {
  std::vector<std::shared_ptr<StreamGroup>> alive;
  std::lock_guard lock(mutex_);
  for (const auto& group : groups_)
    if (auto held = group.lock()) alive.push_back(std::move(held));
  return alive;
}

std::shared_ptr<StreamGroup> PartitionShare::make_group() {
  std::shared_ptr<StreamGroup> group;
  {
    std::lock_guard lock(mutex_);
    group = sms_ != nullptr ? sms_->make_group() : SmGroups::of(device_).make_group();
    std::erase_if(groups_, [](const auto& known) { return known.expired(); });
    groups_.push_back(group);
  }
  group->set_hook([this](const std::shared_ptr<driver::Stream>& stream) { admit_stream(stream); });
  return group;
}

void PartitionShare::admit_stream(const std::shared_ptr<driver::Stream>& stream) {
  int streams = 0, allowed = 0;
  for (const auto& group : living_groups()) streams += group->num_streams();
  {
    std::lock_guard lock(mutex_);
    allowed = limits_.max_streams;
  }
  if (streams > allowed)
    throw Error("Stream: partition '" + id_ + "' has its " + std::to_string(allowed) + " streams (max_streams)");
  controller_.join(stream, tenant_);
}

void PartitionShare::resize(const PartitionLimits& limits) {
  std::lock_guard one_at_a_time(change_);
  const double rate = rate_of_share(device_, limits.bandwidth_share);
  PartitionLimits before;
  {
    std::lock_guard lock(mutex_);
    before = limits_;
  }
  claim(limits);
  try {
    if (limits.compute_share != before.compute_share) change_mode(mode_for(limits.compute_share), limits.compute_share);
  } catch (...) {
    claims_.change("", std::exchange(claimed_, before), before, std::numeric_limits<double>::infinity());
    throw;
  }
  controller_.set_bytes_per_second(tenant_, rate);
  account()->set_quota(static_cast<size_t>(limits.memory_quota));
  std::lock_guard lock(mutex_);
  bytes_per_second_ = rate;
  limits_ = limits;
}

PartitionUsage PartitionShare::usage() const {
  PartitionUsage usage;
  {
    std::lock_guard lock(mutex_);
    if (given_up_) return last_;
  }
  const TenantUsage measured = controller_.usage(tenant_);
  const memory::AccountStats charged = account()->stats();
  usage.memory_used = used_bytes(*account());
  usage.memory_peak = static_cast<int64_t>(charged.peak_charged_bytes);
  usage.memory_limit = static_cast<int64_t>(charged.quota);
  for (const auto& group : living_groups()) usage.active_streams += group->num_streams();
  usage.pending_kernels = measured.pending_kernels;
  usage.pending_transfers = measured.pending_copies;
  usage.total_kernels = measured.kernels;
  usage.total_transfers = measured.copies;
  usage.bytes_copied = measured.bytes;
  usage.compute_time_ms = measured.device_us / 1e3;
  usage.enforced = true;
  usage.note = kOutside;
  std::shared_ptr<SmSet> sms;
  {
    std::lock_guard lock(mutex_);
    sms = sms_;
    usage.bytes_per_second = bytes_per_second_;
    usage.paced = mode_ == Mode::paced;
    if (mode_ != Mode::whole) usage.sm_asked = sms_of_share(device_, limits_.compute_share);
  }
  usage.sm_count = sms != nullptr ? sms->sm_count() : SmGroups::of(device_).default_sms();
  return usage;
}

}  // namespace gpukit::scheduler
