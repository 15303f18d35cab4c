#include "gpukit/scheduler/partition/sm_groups.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "gpukit/base/error.h"
#include "gpukit/base/log.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::scheduler {

using runtime::StreamGroup;

namespace {

std::atomic<bool> g_use_sets{true};

constexpr auto kSignalSlice = std::chrono::milliseconds(50);
constexpr auto kLongestWait = std::chrono::seconds(10);

/// Green contexts kept for sets that nobody has now. Each may hold a few MiB of the device.
constexpr size_t kMostIdle = 16;

bool same_shape(const driver::SmSplit* a, const driver::SmSplit* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->num_groups() == b->num_groups() && a->sms_per_group() == b->sms_per_group() &&
         a->remainder_sms() == b->remainder_sms();
}

std::vector<std::shared_ptr<StreamGroup>> living(std::vector<std::weak_ptr<StreamGroup>>& groups) {
  std::vector<std::shared_ptr<StreamGroup>> alive;
  std::erase_if(groups, [&](const auto& group) {
    auto held = group.lock();
    if (held == nullptr) return true;
    alive.push_back(std::move(held));
    return false;
  });
  return alive;
}

using Places = std::vector<std::pair<std::shared_ptr<StreamGroup>, std::shared_ptr<driver::GreenContext>>>;

Places places(const std::vector<std::shared_ptr<StreamGroup>>& groups) {
  Places now;
  for (const auto& group : groups) now.emplace_back(group, group->green());
  return now;
}

/// To where they were. What fails stays where it is until the next change.
void put_back(const Places& before) noexcept {
  for (const auto& [group, green] : before) {
    try {
      group->move_to(green);
    } catch (const std::exception& error) {
      log(LogLevel::warning, std::string("partition: streams stay on other SMs for now: ") + error.what());
    }
  }
}

/// Moves all or none.
void move_all(const std::vector<std::shared_ptr<StreamGroup>>& groups,
              const std::shared_ptr<driver::GreenContext>& green) {
  const Places before = places(groups);
  try {
    for (const auto& group : groups) group->move_to(green);
  } catch (...) {
    put_back(before);
    throw;
  }
}

}  // namespace

// SmSet

SmSet::~SmSet() { owner_.give_back(std::move(groups_)); }

int SmSet::asked() const {
  std::lock_guard lock(owner_.mutex_);
  return asked_;
}

int SmSet::sm_count() const {
  std::lock_guard lock(owner_.mutex_);
  return green_->sm_count();
}

std::shared_ptr<StreamGroup> SmSet::make_group() {
  std::lock_guard lock(owner_.mutex_);
  auto group = StreamGroup::make(owner_.state_.context, green_);
  streams_.push_back(group);
  return group;
}

void SmSet::adopt(const std::shared_ptr<StreamGroup>& group) {
  std::lock_guard lock(owner_.mutex_);
  streams_.push_back(group);
  try {
    group->move_to(green_);
  } catch (...) {
    streams_.pop_back();
    throw;
  }
  std::erase_if(owner_.rest_, [&](const auto& other) { return other.lock() == group; });
}

void SmSet::resize(int asked_sms) { owner_.resize(*this, asked_sms); }

// SmGroups

SmGroups& SmGroups::of(Device device) {
  struct Table {
    std::mutex mutex;
    std::map<runtime::DeviceState*, std::unique_ptr<SmGroups>> groups;
  };
  static auto* table = new Table;
  runtime::DeviceState& state = runtime::open_device(device);
  std::lock_guard lock(table->mutex);
  auto& slot = table->groups[&state];
  if (slot == nullptr) slot.reset(new SmGroups(state));
  return *slot;
}

SmGroups::SmGroups(runtime::DeviceState& state) : state_(state) { rest_.push_back(state.streams); }

void SmGroups::split() {
  if (sets_ > 0) return;
  free_.clear();
  std::unique_ptr<driver::SmSplit> split;
  if (g_use_sets.load(std::memory_order_relaxed) && state_.context.api().has_green_contexts(state_.context.ordinal())) {
    state_.context.make_current();
    split = std::make_unique<driver::SmSplit>(state_.context);
    if (split->num_groups() + (split->remainder_sms() > 0 ? 1 : 0) < 2) split.reset();
  }
  // Groups of two splits may not be put together, so one that is as before does not take its place.
  if (!same_shape(split_.get(), split.get())) {
    known_.clear();
    split_ = std::move(split);
  }
  if (split_ == nullptr) return;
  free_.resize(static_cast<size_t>(split_->num_groups()));
  std::iota(free_.begin(), free_.end(), 0);
}

void SmGroups::use_sets(bool on) { g_use_sets.store(on, std::memory_order_relaxed); }

bool SmGroups::available() {
  std::lock_guard lock(mutex_);
  split();
  return split_ != nullptr;
}

int SmGroups::total_locked() const {
  if (split_ == nullptr) return state_.context.properties().sm_count;
  return split_->num_groups() * split_->sms_per_group() + split_->remainder_sms();
}

int SmGroups::total_sms() {
  std::lock_guard lock(mutex_);
  return total_locked();
}

int SmGroups::default_sms() {
  std::lock_guard lock(mutex_);
  if (sets_ == 0) return total_locked();
  return static_cast<int>(free_.size()) * split_->sms_per_group() + split_->remainder_sms();
}

std::vector<int> SmGroups::choose(const std::vector<int>& own, int asked_sms) const {
  std::vector<int> candidates = own;
  candidates.insert(candidates.end(), free_.begin(), free_.end());
  const int keep = split_->remainder_sms() > 0 ? 0 : 1;
  const int usable = static_cast<int>(candidates.size()) - keep;
  if (usable < 1) {
    throw Error("partition: no SM group is left: the device has " + std::to_string(split_->num_groups()) +
                " groups of " + std::to_string(split_->sms_per_group()) + " SMs and other partitions have them");
  }
  // The same part of the groups as of the SMs, so that shares that add up to all find groups for all: some SMs are in
  // no group.
  const double part = static_cast<double>(asked_sms) / total_locked();
  const int wanted = std::clamp(static_cast<int>(std::lround(part * split_->num_groups())), 1, usable);
  candidates.resize(static_cast<size_t>(wanted));
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

std::shared_ptr<driver::GreenContext> SmGroups::green_of(const std::vector<int>& groups, bool remainder) {
  auto same = [&](const Known& known) { return known.groups == groups && known.remainder == remainder; };
  auto found = std::find_if(known_.begin(), known_.end(), same);
  if (found != known_.end()) {
    std::rotate(found, found + 1, known_.end());
  } else {
    state_.context.make_current();
    auto made = std::make_shared<driver::GreenContext>(*split_, groups, remainder && split_->remainder_sms() > 0);
    known_.push_back({groups, remainder, std::move(made)});
  }
  std::shared_ptr<driver::GreenContext> green = known_.back().green;
  drop_idle(kMostIdle);
  return green;
}

void SmGroups::drop_idle(size_t keep) {
  auto idle = [](const Known& known) { return known.green.use_count() == 1; };
  auto count = static_cast<size_t>(std::count_if(known_.begin(), known_.end(), idle));
  std::erase_if(known_, [&](const Known& known) { return idle(known) && count > keep && count-- > 0; });
}

void SmGroups::forget_idle() noexcept {
  std::lock_guard lock(mutex_);
  drop_idle(0);
}

/// Sends everyone without a share to the SMs that are free, or to the whole device when no set is left.
void SmGroups::move_rest() {
  std::shared_ptr<driver::GreenContext> green;
  if (sets_ > 0) green = green_of(free_, true);
  move_all(living(rest_), green);
}

/// Groups that a resize left are free when their work is over: better late than refused.
void SmGroups::wait_for_groups(std::unique_lock<std::mutex>& lock) {
  const size_t kept = split_->remainder_sms() > 0 ? 0 : 1;
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  while (free_.size() <= kept && leaving_ > 0 && std::chrono::steady_clock::now() < end) {
    left_.wait_for(lock, kSignalSlice);
    lock.unlock();
    runtime::check_interrupt();
    lock.lock();
  }
}

std::shared_ptr<SmSet> SmGroups::take(int asked_sms) {
  std::shared_ptr<SmSet> set;
  std::unique_lock lock(mutex_);
  split();
  if (split_ == nullptr) throw Error("partition: this device and driver have no sets of SMs");
  wait_for_groups(lock);
  const std::vector<int> groups = choose({}, asked_sms);
  auto green = green_of(groups, false);
  const std::vector<int> before = free_;
  free_.erase(std::remove_if(free_.begin(), free_.end(),
                             [&](int group) { return std::binary_search(groups.begin(), groups.end(), group); }),
              free_.end());
  ++sets_;
  try {
    move_rest();
    set.reset(new SmSet(*this));
  } catch (...) {
    free_ = before;
    --sets_;
    throw;
  }
  set->asked_ = asked_sms;
  set->groups_ = groups;
  set->green_ = std::move(green);
  return set;
}

std::shared_ptr<StreamGroup> SmGroups::make_group() {
  std::lock_guard lock(mutex_);
  auto group = StreamGroup::make(state_.context, state_.streams->green());
  living(rest_);
  rest_.push_back(group);
  return group;
}

void SmGroups::adopt(const std::shared_ptr<StreamGroup>& group) {
  std::lock_guard lock(mutex_);
  std::erase_if(rest_, [&](const auto& other) { return other.lock() == group; });
  rest_.push_back(group);
  try {
    group->move_to(state_.streams->green());
  } catch (...) {
    rest_.pop_back();
    throw;
  }
}

void SmGroups::resize(SmSet& set, int asked_sms) {
  std::vector<std::shared_ptr<StreamGroup>> streams;
  std::vector<int> left;
  {
    std::lock_guard lock(mutex_);
    const std::vector<int> groups = choose(set.groups_, asked_sms);
    if (groups == set.groups_) {
      set.asked_ = asked_sms;
      return;
    }
    auto green = green_of(groups, false);
    streams = living(set.streams_);
    const std::vector<int> before = free_;
    const Places rest = places(living(rest_));
    std::erase_if(free_, [&](int group) { return std::binary_search(groups.begin(), groups.end(), group); });
    try {
      if (free_ != before) move_rest();
      move_all(streams, green);
    } catch (...) {
      free_ = before;
      put_back(rest);
      throw;
    }
    std::set_difference(set.groups_.begin(), set.groups_.end(), groups.begin(), groups.end(), std::back_inserter(left));
    set.asked_ = asked_sms;
    set.groups_ = groups;
    set.green_ = std::move(green);
  }
  if (!left.empty()) give_back_after(streams, std::move(left));
}

/// The groups are free once the work that the streams hold now is over.
void SmGroups::give_back_after(const std::vector<std::shared_ptr<StreamGroup>>& streams, std::vector<int> groups) {
  struct Count {
    SmGroups& owner;
    std::vector<int> groups;
    std::atomic<int> left{1};
    void down() {
      if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) owner.give_back(std::move(groups), true);
    }
  };
  auto count = std::make_shared<Count>(*this, std::move(groups));
  {
    std::lock_guard lock(mutex_);
    ++sets_;  // until it is given back
    ++leaving_;
  }
  for (const auto& group : streams) {
    for (const auto& stream : group->streams()) {
      count->left.fetch_add(1, std::memory_order_relaxed);
      try {
        state_.context.make_current();
        auto event = std::make_shared<driver::Event>(state_.context);
        event->record(*stream);
        runtime::Waiter::of(stream->device()).add(stream, event, [count](int) { count->down(); });
      } catch (const Error& error) {
        log(LogLevel::warning, std::string("partition: cannot see the end of earlier work: ") + error.what());
        count->down();
      }
    }
  }
  count->down();
}

void SmGroups::give_back(std::vector<int> groups, bool left) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (left) {
      --leaving_;
      left_.notify_all();
    }
    free_.insert(free_.end(), groups.begin(), groups.end());
    std::sort(free_.begin(), free_.end());
    --sets_;
    move_rest();
  } catch (const std::exception& error) {
    // The default session stays where it is until the next change.
    log(LogLevel::warning, std::string("partition: SMs given back are not in use yet: ") + error.what());
  }
}

}  // namespace gpukit::scheduler
