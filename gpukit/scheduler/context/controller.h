// Several models on one device: contexts under one memory budget, each with its stream, wall, share and futures.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/memory/pool.h"
#include "gpukit/scheduler/context/context.h"
#include "gpukit/scheduler/inspect/snapshot_registry.h"

namespace gpukit::scheduler {

struct ControllerStats {
  bool initialized = false;
  int device_id = 0;
  int64_t total_vram_budget = 0, device_total_memory = 0, used_vram = 0, available_vram = 0;
  int64_t context_count = 0, stream_pool_size = 0;
};

/// Memory is kept apart by walls: the budget around all contexts, `max_vram` around each. What each context has as
/// `base_vram` is out of reach for all others. Blocks of contexts that were given a class and may lose memory
/// (burstable, best effort) can be moved to host memory. Thread-safe; no lock is held while it waits for the device.
class MultiLLMController {
 public:
  static constexpr int kStreams = 8;

  /// `device_total_memory` 0: the GPU's memory, on the CPU 8 GiB. `total_vram_budget` 0: all of it. Throws Error when
  /// contexts exist.
  void initialize(int device_id = 0, int64_t device_total_memory = 0, int64_t total_vram_budget = 0);
  bool is_initialized() const;
  Device device() const;  // throws Error before initialize()

  /// When `base_vram` is not free, blocks of contexts above theirs are moved to host memory in the order of
  /// qos_eviction_order, the least recently used of a context first; they come back when used, if there is room.
  /// Throws Error before initialize() (unless `options.initialize`), for an id that exists, when all streams are taken,
  /// when `base_vram` is more than the budget has left or could be freed, or a share more than the device has;
  /// ArgumentError for options that contradict each other or another device than the controller's.
  std::shared_ptr<ExecutionContext> create_context(const std::string& llm_id, const ContextOptions& options = {});
  std::shared_ptr<ExecutionContext> find(const std::string& llm_id) const;  // null when unknown
  /// Throws ArgumentError naming `op` when unknown.
  std::shared_ptr<ExecutionContext> get(const char* op, const std::string& llm_id) const;
  /// Waits for its work. False when unknown or being destroyed already. Throws Error inside one of its sessions.
  bool destroy_context(const std::string& llm_id);
  std::vector<std::string> list_contexts() const;  // in the order of their making
  ContextStats context_stats(const ExecutionContext& context) const;

  int64_t used_vram() const;
  int64_t available_vram() const;
  ControllerStats stats() const;
  /// Destroys every context and starts anew. Throws as destroy_context does, and Error while another call makes or
  /// destroys one.
  void reset();

  // A flag of the controller as a whole; starts and ends are counted.
  void start_session();
  void end_session();
  bool is_session_active() const;

 private:
  struct Target {
    Device device;
    memory::Pool* pool;  // may be null
    int64_t memory;
  };
  /// A context being made: its id and stream are taken.
  struct Making {
    std::string llm_id;
    int stream_id;
    int64_t base_vram;
  };
  static Target open(int device_id);
  void set_up_locked(const Target& target, int64_t device_total_memory, int64_t total_vram_budget);
  static QosClass check(const std::string& llm_id, ContextOptions& options);
  Making begin_making(const std::string& llm_id, const ContextOptions& options);
  void end_making(const Making& making, std::shared_ptr<ExecutionContext> made);
  void keep_base(memory::Account& account, const std::string& llm_id, int64_t bytes);
  int64_t available_vram(const ExecutionContext& context) const;
  std::vector<std::shared_ptr<ExecutionContext>> contexts() const;
  std::shared_ptr<memory::Account> budget_account() const;

  mutable std::mutex mutex_;
  bool initialized_ = false;
  int sessions_ = 0;
  Device device_;
  int64_t total_memory_ = 0, budget_ = 0;
  std::shared_ptr<memory::Account> budget_account_;
  std::vector<std::shared_ptr<ExecutionContext>> contexts_;
  std::vector<Making> making_;
  std::vector<const ExecutionContext*> closing_;
  const Listed<MultiLLMController> listed_{*this};
};

}  // namespace gpukit::scheduler
