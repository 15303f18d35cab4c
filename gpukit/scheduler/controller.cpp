#include "gpukit/scheduler/controller.h"

#include <algorithm>
#include <limits>

#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/device.h"

namespace gpukit::scheduler {

namespace {

constexpr int64_t kCpuMemory = int64_t{8} << 30;

int64_t not_negative(const char* op, const char* argument, int64_t value) {
  if (value < 0) throw ArgumentError(op, argument, "be 0 or more", std::to_string(value));
  return value;
}

std::shared_ptr<memory::Account> make_wall(const char* name, Device device, int64_t quota,
                                           std::shared_ptr<memory::Account> parent) {
  return memory::Account::create(name, device, static_cast<size_t>(quota), false, std::move(parent));
}

/// A quota of 0 would be no wall at all.
size_t wall(int64_t bytes) { return static_cast<size_t>(std::max<int64_t>(bytes, 1)); }

}  // namespace

void MultiLLMController::initialize(int device_id, int64_t device_total_memory, int64_t total_vram_budget) {
  not_negative("initialize", "device_total_memory", device_total_memory);
  not_negative("initialize", "total_vram_budget", total_vram_budget);
  const Device device{runtime::default_device().kind, static_cast<int16_t>(device_id)};
  runtime::DeviceState& state = runtime::open_device(device);
  auto* pool = dynamic_cast<memory::Pool*>(state.resource.get());
  const int64_t memory = device.kind == DeviceKind::cuda ? state.context.properties().total_memory : kCpuMemory;
  std::lock_guard one_at_a_time(change_);
  std::lock_guard lock(mutex_);
  if (!contexts_.empty()) {
    throw Error("initialize: " + std::to_string(contexts_.size()) +
                " context(s) exist; destroy them or call reset() first");
  }
  device_ = device;
  total_memory_ = device_total_memory != 0 ? device_total_memory : memory;
  budget_ = total_vram_budget != 0 ? total_vram_budget : total_memory_;
  walls_.budget = make_wall("contexts", device, budget_, pool != nullptr ? pool->root() : nullptr);
  walls_.shared = make_wall("contexts:shared", device, budget_, walls_.budget);
  walls_.best_effort = make_wall("contexts:best_effort", device, budget_, walls_.shared);
  initialized_ = true;
  sessions_ = 0;
}

bool MultiLLMController::is_initialized() const {
  std::lock_guard lock(mutex_);
  return initialized_;
}

Device MultiLLMController::device() const {
  std::lock_guard lock(mutex_);
  if (!initialized_) throw Error("MultiLLMController: call initialize() first");
  return device_;
}

/// The class, with `options` completed. Throws when they contradict each other or do not fit.
QosClass MultiLLMController::check(const std::string& llm_id, ContextOptions& options) const {
  constexpr const char* op = "create_context";
  if (llm_id.empty()) throw ArgumentError(op, "llm_id", "be a text", "''");
  not_negative(op, "max_vram", options.max_vram);
  not_negative(op, "base_vram", options.base_vram);
  if (!(options.compute > 0 && options.compute <= 1))
    throw ArgumentError(op, "compute", "be above 0 and at most 1", std::to_string(options.compute));
  if (!(options.bandwidth > 0 && options.bandwidth <= 1))
    throw ArgumentError(op, "bandwidth", "be above 0 and at most 1", std::to_string(options.bandwidth));
  if (options.max_vram > 0 && options.base_vram > options.max_vram) {
    throw ArgumentError(op, "base_vram", "be at most max_vram, " + std::to_string(options.max_vram),
                        std::to_string(options.base_vram));
  }
  if (options.qos == QosClass::guaranteed && options.base_vram == 0) options.base_vram = options.max_vram;
  const std::optional<int64_t> limit = options.max_vram > 0 ? std::optional(options.max_vram) : std::nullopt;
  const QosClass follows = ResourceRequirements(options.base_vram, limit).qos_class();
  if (!options.qos) return follows;
  if (*options.qos == QosClass::best_effort && options.base_vram == 0) return QosClass::best_effort;
  if (*options.qos != follows) {
    throw ArgumentError(op, "qos",
                        std::string("be ") + name(follows) + ", which follows from base_vram " +
                            std::to_string(options.base_vram) + " and max_vram " + std::to_string(options.max_vram),
                        name(*options.qos));
  }
  return follows;
}

/// What others may not have is taken off their walls.
void MultiLLMController::set_walls_locked() {
  int64_t guaranteed = 0, burstable = 0;
  for (const auto& context : contexts_) {
    if (context->qos() == QosClass::guaranteed) guaranteed += context->base_vram();
    if (context->qos() == QosClass::burstable) burstable += context->base_vram();
  }
  walls_.shared->set_quota(wall(budget_ - guaranteed));
  walls_.best_effort->set_quota(wall(budget_ - guaranteed - burstable));
}

std::shared_ptr<ExecutionContext> MultiLLMController::create_context(const std::string& llm_id,
                                                                     const ContextOptions& given) {
  ContextOptions options = given;
  const QosClass qos = check(llm_id, options);
  std::lock_guard one_at_a_time(change_);
  const Device where = device();
  if (find(llm_id) != nullptr) throw Error("create_context: '" + llm_id + "' exists");
  int stream_id = 0;
  std::shared_ptr<memory::Account> parent;
  {
    std::lock_guard lock(mutex_);
    auto taken = [&](int id) {
      return std::any_of(contexts_.begin(), contexts_.end(), [&](const auto& c) { return c->stream_id() == id; });
    };
    while (stream_id < kStreams && taken(stream_id)) ++stream_id;
    if (stream_id == kStreams)
      throw Error("create_context: all " + std::to_string(kStreams) + " streams are taken; destroy a context first");
    int64_t kept = 0;
    for (const auto& context : contexts_) kept += context->base_vram();
    if (options.base_vram > budget_ - kept) {
      throw Error("create_context: '" + llm_id + "' asks for base_vram " + std::to_string(options.base_vram) +
                  " and the budget of " + std::to_string(budget_) + " has " + std::to_string(budget_ - kept) +
                  " left to keep");
    }
    parent = qos == QosClass::guaranteed  ? walls_.budget
             : qos == QosClass::burstable ? walls_.shared
                                          : walls_.best_effort;
  }
  std::shared_ptr<PartitionShare> share;
  if (options.compute < 1.0 || options.bandwidth < 1.0) {
    const PartitionLimits limits(0, options.compute, options.bandwidth, std::numeric_limits<int>::max());
    share = std::make_shared<PartitionShare>("context:" + llm_id, limits, where);
  }
  auto account = memory::Account::create("context:" + llm_id, where, static_cast<size_t>(options.max_vram), false,
                                         std::move(parent));
  auto context =
      std::make_shared<ExecutionContext>(llm_id, stream_id, options, qos, std::move(account), std::move(share), where);
  std::lock_guard lock(mutex_);
  contexts_.push_back(context);
  set_walls_locked();
  note_event("context", "create", llm_id, options.max_vram, name(qos));
  return context;
}

std::shared_ptr<ExecutionContext> MultiLLMController::find(const std::string& llm_id) const {
  std::lock_guard lock(mutex_);
  for (const auto& context : contexts_)
    if (context->llm_id() == llm_id) return context;
  return nullptr;
}

std::shared_ptr<ExecutionContext> MultiLLMController::get(const char* op, const std::string& llm_id) const {
  if (auto found = find(llm_id)) return found;
  throw ArgumentError(op, "llm_id", "be a context that exists", "'" + llm_id + "'");
}

bool MultiLLMController::destroy_context(const std::string& llm_id) {
  std::lock_guard one_at_a_time(change_);
  std::shared_ptr<ExecutionContext> context = find(llm_id);
  if (context == nullptr) return false;
  context->close();
  std::lock_guard lock(mutex_);
  std::erase(contexts_, context);
  set_walls_locked();
  note_event("context", "destroy", llm_id);
  return true;
}

std::vector<std::string> MultiLLMController::list_contexts() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& context : contexts_) ids.push_back(context->llm_id());
  return ids;
}

ContextStats MultiLLMController::context_stats(const ExecutionContext& context) const {
  return context.stats(available_vram());
}

int64_t MultiLLMController::used_vram() const {
  std::shared_ptr<memory::Account> budget;
  {
    std::lock_guard lock(mutex_);
    budget = walls_.budget;
  }
  return budget == nullptr ? 0 : used_bytes(*budget);
}

int64_t MultiLLMController::available_vram() const {
  const int64_t used = used_vram();
  std::lock_guard lock(mutex_);
  return std::max<int64_t>(budget_ - used, 0);
}

ControllerStats MultiLLMController::stats() const {
  ControllerStats stats;
  stats.used_vram = used_vram();
  std::lock_guard lock(mutex_);
  stats.initialized = initialized_;
  stats.device_id = device_.index;
  stats.total_vram_budget = budget_;
  stats.device_total_memory = total_memory_;
  stats.available_vram = std::max<int64_t>(budget_ - stats.used_vram, 0);
  stats.context_count = static_cast<int64_t>(contexts_.size());
  stats.stream_pool_size = kStreams;
  return stats;
}

void MultiLLMController::reset() {
  for (const std::string& id : list_contexts()) destroy_context(id);
  std::lock_guard one_at_a_time(change_);
  std::lock_guard lock(mutex_);
  initialized_ = false;
  sessions_ = 0;
  device_ = {};
  total_memory_ = budget_ = 0;
  walls_ = {};
}

void MultiLLMController::start_session() {
  std::lock_guard lock(mutex_);
  ++sessions_;
}

void MultiLLMController::end_session() {
  std::lock_guard lock(mutex_);
  sessions_ = std::max(sessions_ - 1, 0);
}

bool MultiLLMController::is_session_active() const {
  std::lock_guard lock(mutex_);
  return sessions_ > 0;
}

}  // namespace gpukit::scheduler
