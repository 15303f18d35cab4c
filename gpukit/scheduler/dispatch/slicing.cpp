#include "gpukit/scheduler/dispatch/slicing.h"

#include <algorithm>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"

namespace gpukit::scheduler {
namespace {

// Of a kernel never measured the first slice is this part of the largest.
constexpr int64_t kFirstPart = 16;
constexpr int64_t kGrowth = 4;
constexpr double kMargin = 0.8;  // of the longest duration
constexpr double kRecent = 0.5;  // weight of the last slice in a kernel's rate

int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

int64_t at_least_one(const char* argument, int64_t value) {
  if (value < 1) throw ArgumentError("SliceConfig", argument, "be at least 1", std::to_string(value));
  return value;
}

void check(const SliceConfig& config) {
  at_least_one("max_items_per_slice", config.max_items_per_slice);
  at_least_one("min_slices", config.min_slices);
  at_least_one("max_slices", config.max_slices);
  if (config.max_slices < config.min_slices) {
    throw ArgumentError("SliceConfig", "max_slices",
                        "be at least min_slices (" + std::to_string(config.min_slices) + ")",
                        std::to_string(config.max_slices));
  }
  if (!(config.max_duration_ms > 0) || !std::isfinite(config.max_duration_ms))
    throw ArgumentError("SliceConfig", "max_duration_ms", "be above 0 and finite",
                        std::to_string(config.max_duration_ms));
}

int64_t slices_for(const SliceConfig& config, int64_t items, int64_t most_items) {
  const int64_t wanted = std::max(divide_up(items, most_items), config.min_slices);
  return std::min({wanted, config.max_slices, items});
}

int64_t items_in(double items_per_ms, double ms) {
  return static_cast<int64_t>(std::clamp(items_per_ms * ms, 1.0, 9e15));
}

}  // namespace

SliceScheduler::SliceScheduler(const SliceConfig& config) : config_(config) { check(config); }

int64_t SliceScheduler::submit(uint64_t kernel_handle, int64_t total_items, const Extent3& block, int64_t shared_mem,
                               std::optional<std::string> task_id, int64_t priority) {
  if (total_items < 0)
    throw ArgumentError("SliceScheduler.submit", "total_items", "be 0 or more", std::to_string(total_items));
  const LaunchConfig checked({1, 1, 1}, block, shared_mem, 0);
  if (total_items == 0) return 0;
  std::lock_guard lock(mutex_);
  int64_t most = config_.max_items_per_slice;
  if (auto known = items_per_ms_.find(kernel_handle); config_.adaptive && known != items_per_ms_.end())
    most = std::min(most, items_in(known->second, config_.max_duration_ms));
  const int64_t count = slices_for(config_, total_items, most);
  const uint64_t id = next_kernel_++;
  Kernel& kernel = kernels_[id];
  kernel.handle = kernel_handle;
  kernel.block = checked.block;
  kernel.shared_mem = shared_mem;
  kernel.task_id = std::move(task_id);
  kernel.priority = priority;
  kernel.items = total_items;
  kernel.slices_left = count;
  turns_[-priority].push_back(id);
  ++stats_.total_kernels;
  ++stats_.pending_kernels;
  stats_.total_slices += count;
  stats_.pending_slices += count;
  return count;
}

std::optional<SliceInfo> SliceScheduler::get_next_slice() {
  std::lock_guard lock(mutex_);
  if (turns_.empty()) return std::nullopt;
  auto level = turns_.begin();
  const uint64_t id = level->second.front();
  level->second.pop_front();
  Kernel& kernel = kernels_.at(id);
  KernelSlice slice;
  slice.id = static_cast<int64_t>(kernel.slices.size());
  slice.offset = kernel.next_offset;
  slice.count = divide_up(kernel.items - kernel.next_offset, kernel.slices_left);
  slice.grid = {divide_up(slice.count, kernel.block[0] * kernel.block[1] * kernel.block[2]), 1, 1};
  kernel.next_offset += slice.count;
  ++kernel.outstanding;
  outstanding_.push_back({id, kernel.slices.size()});
  kernel.slices.push_back(slice);
  if (--kernel.slices_left > 0)
    level->second.push_back(id);
  else if (level->second.empty())
    turns_.erase(level);
  return SliceInfo{kernel.handle, kernel.block, kernel.shared_mem, slice.id,       slice.offset,
                   slice.count,   slice.grid,   kernel.task_id,    kernel.priority};
}

/// After a slice that took too long: smaller ones for what is left.
void SliceScheduler::recut(Kernel& kernel, const KernelSlice& slice) {
  const double rate = static_cast<double>(slice.count) / slice.exec_time_ms;
  double& known = items_per_ms_[kernel.handle];
  known = known == 0 ? rate : known + kRecent * (rate - known);
  if (kernel.slices_left == 0 || slice.exec_time_ms <= config_.max_duration_ms) return;
  const int64_t left = kernel.items - kernel.next_offset;
  const auto issued = static_cast<int64_t>(kernel.slices.size());
  const int64_t wanted = divide_up(left, items_in(rate, config_.max_duration_ms));
  const int64_t count = std::min(wanted, std::max<int64_t>(config_.max_slices - issued, 1));
  if (count <= kernel.slices_left) return;
  stats_.total_slices += count - kernel.slices_left;
  stats_.pending_slices += count - kernel.slices_left;
  kernel.slices_left = count;
}

bool SliceScheduler::complete_slice(double exec_time_ms) {
  std::lock_guard lock(mutex_);
  if (outstanding_.empty()) return false;
  const Outstanding done = outstanding_.front();
  outstanding_.pop_front();
  auto found = kernels_.find(done.kernel);
  Kernel& kernel = found->second;
  KernelSlice& slice = kernel.slices[done.slice];
  slice.executed = true;
  slice.exec_time_ms = exec_time_ms;
  --kernel.outstanding;
  ++stats_.completed_slices;
  --stats_.pending_slices;
  if (config_.adaptive && exec_time_ms > 0) recut(kernel, slice);
  if (kernel.outstanding == 0 && kernel.slices_left == 0) {
    ++stats_.completed_kernels;
    --stats_.pending_kernels;
    kernels_.erase(found);
  }
  return true;
}

int64_t SliceScheduler::pending_slices() const { return stats().pending_slices; }

int64_t SliceScheduler::pending_kernels() const { return stats().pending_kernels; }

std::vector<KernelSlice> SliceScheduler::slices(uint64_t kernel_handle) const {
  std::lock_guard lock(mutex_);
  std::vector<KernelSlice> list;
  for (const auto& [id, kernel] : kernels_)
    if (kernel.handle == kernel_handle) list.insert(list.end(), kernel.slices.begin(), kernel.slices.end());
  return list;
}

SliceStats SliceScheduler::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void SliceScheduler::clear() {
  std::lock_guard lock(mutex_);
  kernels_.clear();
  turns_.clear();
  outstanding_.clear();
  stats_ = {};
}

// Real launches

namespace {

/// One slice on the stream, between two timing events.
struct Timed {
  explicit Timed(driver::Context& context) : begin(context, true, true), end(context, true, true) {}
  driver::Event begin, end;
  int64_t count = 0;  // 0: not in use
};

void launch_slice(int64_t number, int64_t offset, int64_t count, const std::function<void(int64_t, int64_t)>& launch) {
  const LaunchNote note("slice " + std::to_string(number) + " at " + std::to_string(offset));
  launch(offset, count);
}

SlicedRun run_equal(int64_t total_items, const SliceConfig& config,
                    const std::function<void(int64_t, int64_t)>& launch) {
  SlicedRun run;
  int64_t left = slices_for(config, total_items, config.max_items_per_slice);
  for (int64_t offset = 0; left > 0; --left) {
    const int64_t count = divide_up(total_items - offset, left);
    launch_slice(run.slices++, offset, count, launch);
    offset += count;
  }
  return run;
}

}  // namespace

SlicedRun run_sliced(const std::shared_ptr<driver::Stream>& stream, int64_t total_items, const SliceConfig& config,
                     const std::function<void(int64_t offset, int64_t count)>& launch, SliceRate* rate) {
  check(config);
  if (total_items < 0) throw ArgumentError("run_sliced", "total_items", "be 0 or more", std::to_string(total_items));
  if (total_items == 0) return {};
  if (!config.adaptive || runtime::thread_capture() != nullptr) return run_equal(total_items, config, launch);

  SlicedRun run;
  const int64_t most = std::max(config.max_items_per_slice, divide_up(total_items, config.max_slices));
  const int64_t largest = std::min(most, divide_up(total_items, config.min_slices));
  double items_per_ms = rate == nullptr ? 0 : rate->items_per_ms.load(std::memory_order_relaxed);
  Timed slots[2] = {Timed(stream->context()), Timed(stream->context())};
  int64_t previous = 0;

  auto measure = [&](Timed& slot) {
    if (slot.count == 0) return;
    runtime::wait_for_device([&] { return slot.end.query(); }, [&] { slot.end.synchronize(); }, true);
    // Times shorter than the clock's step count as one step.
    const double ms = std::max(static_cast<double>(driver::elapsed_ms(slot.begin, slot.end)), 1e-3);
    const double now = static_cast<double>(slot.count) / ms;
    items_per_ms =
        items_per_ms == 0 || ms > config.max_duration_ms ? now : items_per_ms + kRecent * (now - items_per_ms);
    run.longest_ms = std::max(run.longest_ms, ms);
    slot.count = 0;
  };

  for (int64_t offset = 0; offset < total_items;) {
    Timed& slot = slots[run.slices % 2];
    measure(slot);
    // The second slice waits for the first when nothing is known yet.
    if (items_per_ms == 0 && run.slices == 1) measure(slots[0]);
    int64_t count = divide_up(largest, kFirstPart);
    if (items_per_ms > 0) {
      count = items_in(items_per_ms, kMargin * config.max_duration_ms);
      if (previous > 0) count = std::min(count, kGrowth * previous);
    }
    count = std::min({std::max<int64_t>(count, 1), largest, total_items - offset});
    slot.begin.record(*stream);
    launch_slice(run.slices, offset, count, launch);
    slot.end.record(*stream);
    slot.count = count;
    previous = count;
    offset += count;
    ++run.slices;
  }
  if (rate != nullptr && items_per_ms > 0) rate->items_per_ms.store(items_per_ms, std::memory_order_relaxed);
  return run;
}

}  // namespace gpukit::scheduler
