// Slicing: one long launch as many short ones, with other work between them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/driver/objects.h"
#include "gpukit/scheduler/dispatch/dispatch_queue.h"

namespace gpukit::scheduler {

struct SliceConfig {
  int64_t max_items_per_slice = 65536;
  double max_duration_ms = 1.0;
  int64_t min_slices = 1, max_slices = 256;
  /// Slices that took longer than max_duration_ms make the following ones smaller.
  bool adaptive = true;
};

struct KernelSlice {
  int64_t id = 0, offset = 0, count = 0;
  Extent3 grid{1, 1, 1};
  bool executed = false;
  double exec_time_ms = 0;
};

struct SliceInfo {
  uint64_t kernel_handle = 0;
  Extent3 block{256, 1, 1};
  int64_t shared_mem = 0;
  int64_t slice_id = 0, offset = 0, count = 0;
  Extent3 grid{1, 1, 1};
  std::optional<std::string> task_id;
  int64_t priority = 0;
};

struct SliceStats {
  int64_t total_slices = 0, completed_slices = 0, pending_slices = 0;
  int64_t total_kernels = 0, completed_kernels = 0, pending_kernels = 0;
};

/// Cuts kernels into slices and hands them out in turn: kernels of the highest priority first, one slice of each after
/// the other. Pending means not completed. Bookkeeping only; run_sliced launches. Thread-safe.
class SliceScheduler {
 public:
  /// Throws ArgumentError for a config that allows no slice.
  explicit SliceScheduler(const SliceConfig& config = {});
  const SliceConfig& config() const { return config_; }

  /// Returns the number of slices: enough for max_items_per_slice each, within min_slices and max_slices and never more
  /// than items. With adaptive and a kernel seen before, also enough for max_duration_ms each.
  int64_t submit(uint64_t kernel_handle, int64_t total_items, const Extent3& block, int64_t shared_mem,
                 std::optional<std::string> task_id = std::nullopt, int64_t priority = 0);
  std::optional<SliceInfo> get_next_slice();
  /// The slice handed out longest ago is over. False when none is out.
  bool complete_slice(double exec_time_ms);
  int64_t pending_slices() const;
  int64_t pending_kernels() const;
  /// Slices handed out so far of the kernels of that handle that are not completed.
  std::vector<KernelSlice> slices(uint64_t kernel_handle) const;
  SliceStats stats() const;
  void clear();

 private:
  struct Kernel {
    uint64_t handle = 0;
    Extent3 block;
    int64_t shared_mem = 0;
    std::optional<std::string> task_id;
    int64_t priority = 0;
    int64_t items = 0, next_offset = 0;
    int64_t slices_left = 0;  // not handed out
    int64_t outstanding = 0;
    std::vector<KernelSlice> slices;  // handed out
  };
  struct Outstanding {
    uint64_t kernel;
    size_t slice;
  };
  void recut(Kernel& kernel, const KernelSlice& slice);

  const SliceConfig config_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Kernel> kernels_;             // by order of submission
  std::map<int64_t, std::deque<uint64_t>> turns_;  // by -priority: kernels with slices left, the next first
  std::deque<Outstanding> outstanding_;
  std::map<uint64_t, double> items_per_ms_;  // by handle
  SliceStats stats_;
  uint64_t next_kernel_ = 0;
};

/// How fast a kernel went when it was last sliced, kept by its owner so that the next run starts with the right size.
struct SliceRate {
  std::atomic<double> items_per_ms{0};
};

struct SlicedRun {
  int64_t slices = 0;
  double longest_ms = 0;  // on the device, of the slices measured
};

/// Calls `launch(offset, count)` for slices that cover [0, total_items); each call must submit one launch to `stream`.
/// A slice takes at most config.max_duration_ms as far as the rate of those before it tells, and this wins over
/// max_slices; the first is small when the rate is unknown. At most two slices stand on the stream, so other work of
/// the device runs between them. Returns when the last slice is submitted. Not adaptive, or inside a capture where
/// nothing can be measured: equal slices by max_items_per_slice, min_slices and max_slices.
SlicedRun run_sliced(const std::shared_ptr<driver::Stream>& stream, int64_t total_items, const SliceConfig& config,
                     const std::function<void(int64_t offset, int64_t count)>& launch, SliceRate* rate = nullptr);

}  // namespace gpukit::scheduler
