// Several models on one device: contexts under one memory budget, each with its stream, wall, share and futures.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/scheduler/context.h"
#include "gpukit/scheduler/snapshot_registry.h"

namespace gpukit::scheduler {

struct ControllerStats {
  bool initialized = false;
  int device_id = 0;
  int64_t total_vram_budget = 0, device_total_memory = 0, used_vram = 0, available_vram = 0;
  int64_t context_count = 0, stream_pool_size = 0;
};

/// Memory is kept apart by walls: the budget around all contexts, `max_vram` around each. What guaranteed contexts
/// asked for is out of reach for all others, what burstable ones asked for is out of reach for best effort.
/// Thread-safe.
class MultiLLMController {
 public:
  static constexpr int kStreams = 8;

  /// `device_total_memory` 0: the GPU's memory, on the CPU 8 GiB. `total_vram_budget` 0: all of it. Throws Error when
  /// contexts exist.
  void initialize(int device_id = 0, int64_t device_total_memory = 0, int64_t total_vram_budget = 0);
  bool is_initialized() const;
  Device device() const;  // throws Error before initialize()

  /// Throws Error before initialize(), for an id that exists, when all streams are taken, when `base_vram` is more than
  /// the budget has left or a share more than the device has; ArgumentError for options that contradict each other.
  std::shared_ptr<ExecutionContext> create_context(const std::string& llm_id, const ContextOptions& options = {});
  std::shared_ptr<ExecutionContext> find(const std::string& llm_id) const;  // null when unknown
  /// Throws ArgumentError naming `op` when unknown.
  std::shared_ptr<ExecutionContext> get(const char* op, const std::string& llm_id) const;
  /// Waits for its work. False when unknown. Throws Error inside one of its sessions.
  bool destroy_context(const std::string& llm_id);
  std::vector<std::string> list_contexts() const;  // in the order of their making
  ContextStats context_stats(const ExecutionContext& context) const;

  int64_t used_vram() const;
  int64_t available_vram() const;
  ControllerStats stats() const;
  /// Destroys every context and starts anew. Throws as destroy_context does.
  void reset();

  // A flag of the controller as a whole; starts and ends are counted.
  void start_session();
  void end_session();
  bool is_session_active() const;

 private:
  struct Walls {
    std::shared_ptr<memory::Account> budget, shared, best_effort;
  };
  QosClass check(const std::string& llm_id, ContextOptions& options) const;
  void set_walls_locked();

  std::mutex change_;  // making and destroying: one at a time, may wait for the device
  mutable std::mutex mutex_;
  bool initialized_ = false;
  int sessions_ = 0;
  Device device_;
  int64_t total_memory_ = 0, budget_ = 0;
  Walls walls_;
  std::vector<std::shared_ptr<ExecutionContext>> contexts_;
  const Listed<MultiLLMController> listed_{*this};
};

}  // namespace gpukit::scheduler
