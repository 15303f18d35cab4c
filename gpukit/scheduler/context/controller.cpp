#include "gpukit/scheduler/context/controller.h"

#include <algorithm>
#include <limits>

#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/base/number_text.h"
#include "gpukit/memory/fence.h"
#include "gpukit/memory/residency.h"
#include "gpukit/runtime/device.h"

namespace gpukit::scheduler {

namespace {

constexpr int64_t kCpuMemory = int64_t{8} << 30;

int64_t not_negative(const char* op, const char* argument, int64_t value) {
  if (value < 0) throw ArgumentError(op, argument, "be 0 or more", std::to_string(value));
  return value;
}

/// Moves least recently used blocks of one context to host memory. False: none can leave.
bool move_out(memory::Pool& pool, driver::Context& device, memory::Account& account, size_t bytes) {
  // Only what such an account holds may leave; its allocations are walled again right after.
  struct Evicting {
    explicit Evicting(memory::Account& of) : account(of) { account.set_eviction(true); }
    ~Evicting() { account.set_eviction(false); }
    memory::Account& account;
  };
  memory::RelaxedCapture relaxed(device);
  const Evicting evicting(account);
  const bool moved = pool.residency()->make_room(&account, bytes, false);
  pool.forget(account);
  return moved;
}

}  // namespace

MultiLLMController::Target MultiLLMController::open(int device_id) {
  if (device_id < 0 || device_id > INT16_MAX) {
    throw DeviceError("initialize: device index must be 0 to " + std::to_string(INT16_MAX) + ", got " +
                      std::to_string(device_id));
  }
  const Device device{runtime::default_device().kind, static_cast<int16_t>(device_id)};
  runtime::DeviceState& state = runtime::open_device(device);
  return {device, dynamic_cast<memory::Pool*>(state.resource.get()),
          device.kind == DeviceKind::cuda ? state.context.properties().total_memory : kCpuMemory};
}

void MultiLLMController::set_up_locked(const Target& target, int64_t device_total_memory, int64_t total_vram_budget) {
  const int64_t total = device_total_memory != 0 ? device_total_memory : target.memory;
  const int64_t budget = total_vram_budget != 0 ? total_vram_budget : total;
  budget_account_ = memory::Account::create("contexts", target.device, static_cast<size_t>(budget), false,
                                            target.pool != nullptr ? target.pool->root() : nullptr);
  device_ = target.device;
  total_memory_ = total;
  budget_ = budget;
  initialized_ = true;
  sessions_ = 0;
}

void MultiLLMController::initialize(int device_id, int64_t device_total_memory, int64_t total_vram_budget) {
  not_negative("initialize", "device_total_memory", device_total_memory);
  not_negative("initialize", "total_vram_budget", total_vram_budget);
  const Target target = open(device_id);
  std::lock_guard lock(mutex_);
  if (const size_t count = contexts_.size() + making_.size(); count != 0)
    throw Error("initialize: " + std::to_string(count) + " context(s) exist; destroy them or call reset() first");
  set_up_locked(target, device_total_memory, total_vram_budget);
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
QosClass MultiLLMController::check(const std::string& llm_id, ContextOptions& options) {
  constexpr const char* op = "create_context";
  if (llm_id.empty()) throw ArgumentError(op, "llm_id", "be a text", "''");
  not_negative(op, "max_vram", options.max_vram);
  not_negative(op, "base_vram", options.base_vram);
  if (!(options.compute > 0 && options.compute <= 1))
    throw ArgumentError(op, "compute", "be above 0 and at most 1", number_text(options.compute));
  if (!(options.bandwidth > 0 && options.bandwidth <= 1))
    throw ArgumentError(op, "bandwidth", "be above 0 and at most 1", number_text(options.bandwidth));
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

MultiLLMController::Making MultiLLMController::begin_making(const std::string& llm_id, const ContextOptions& options) {
  if (options.initialize && !is_initialized()) {
    const Target target = open(options.device_id);
    std::lock_guard lock(mutex_);
    if (!initialized_) set_up_locked(target, 0, 0);
  }
  std::lock_guard lock(mutex_);
  if (!initialized_) throw Error("MultiLLMController: call initialize() first");
  if (options.device_id != 0 && options.device_id != device_.index) {
    throw ArgumentError("create_context", "device_id",
                        "be " + std::to_string(device_.index) + ", the controller's device",
                        std::to_string(options.device_id));
  }
  Making making{llm_id, 0, options.base_vram};
  bool taken[kStreams] = {};
  int64_t kept = 0;
  auto note = [&](const std::string& id, int stream_id, int64_t base_vram) {
    if (id == llm_id) throw Error("create_context: '" + llm_id + "' exists");
    taken[stream_id] = true;
    kept += base_vram;
  };
  for (const auto& context : contexts_) note(context->llm_id(), context->stream_id(), context->base_vram());
  for (const Making& other : making_) note(other.llm_id, other.stream_id, other.base_vram);
  while (making.stream_id < kStreams && taken[making.stream_id]) ++making.stream_id;
  if (making.stream_id == kStreams)
    throw Error("create_context: all " + std::to_string(kStreams) + " streams are taken; destroy a context first");
  if (options.base_vram > budget_ - kept) {
    throw Error("create_context: '" + llm_id + "' asks for base_vram " + std::to_string(options.base_vram) +
                " and the budget of " + std::to_string(budget_) + " has " + std::to_string(budget_ - kept) +
                " left to keep");
  }
  making_.push_back(making);
  return making;
}

/// `made`: null when it failed.
void MultiLLMController::end_making(const Making& making, std::shared_ptr<ExecutionContext> made) {
  std::lock_guard lock(mutex_);
  std::erase_if(making_, [&](const Making& one) { return one.llm_id == making.llm_id; });
  if (made != nullptr) contexts_.push_back(std::move(made));
}

/// Sets `bytes` of the budget aside for a new context. Who is above its own base gives way.
void MultiLLMController::keep_base(memory::Account& account, const std::string& llm_id, int64_t bytes) {
  const auto wanted = static_cast<size_t>(bytes);
  memory::Account* wall = account.try_keep(wanted);
  if (wall == nullptr) return;
  runtime::DeviceState& device = runtime::open_device(account.device());
  auto* pool = dynamic_cast<memory::Pool*>(device.resource.get());
  if (pool != nullptr) pool->forget(*budget_account());  // what is merely kept for reuse must not stand in the way
  std::vector<std::shared_ptr<ExecutionContext>> others = contexts();
  while ((wall = account.try_keep(wanted)) != nullptr) {
    std::vector<QosUsage> usages;
    for (const auto& other : others) usages.push_back({other->qos(), 0, other->base_vram(), other->used_vram()});
    const std::vector<size_t> order = qos_eviction_order(usages);
    if (pool == nullptr || order.empty()) {
      throw Error("create_context: '" + llm_id + "' asks for base_vram " + std::to_string(bytes) + " and only " +
                  std::to_string(wall->available()) + " of the budget of " + std::to_string(budget_account()->quota()) +
                  " are free; what the other contexts hold cannot be moved to host memory");
    }
    const QosUsage& first = usages[order.front()];
    const size_t missing = wall->charged() + wanted > wall->quota() ? wall->charged() + wanted - wall->quota() : 1;
    const size_t over = static_cast<size_t>(first.used_bytes - first.request_bytes);
    const auto victim = others.begin() + static_cast<std::ptrdiff_t>(order.front());
    if (!move_out(*pool, device.context, *(*victim)->session().account(), std::min(missing, over)))
      others.erase(victim);
  }
}

std::shared_ptr<ExecutionContext> MultiLLMController::create_context(const std::string& llm_id,
                                                                     const ContextOptions& given) {
  ContextOptions options = given;
  const QosClass qos = check(llm_id, options);
  const Making making = begin_making(llm_id, options);
  std::shared_ptr<ExecutionContext> context;
  try {
    const Device where = device();
    auto account = memory::Account::create("context:" + llm_id, where, static_cast<size_t>(options.max_vram), false,
                                           budget_account());
    // Blocks that can move make launches dearer, so only who was given a class pays for it.
    account->set_movable(qos != QosClass::guaranteed && (options.qos || options.base_vram > 0));
    if (options.base_vram > 0) keep_base(*account, llm_id, options.base_vram);
    std::shared_ptr<PartitionShare> share;
    if (options.compute < 1.0 || options.bandwidth < 1.0) {
      const PartitionLimits limits(0, options.compute, options.bandwidth, std::numeric_limits<int>::max());
      share = std::make_shared<PartitionShare>("context:" + llm_id, limits, where);
    }
    context = std::make_shared<ExecutionContext>(llm_id, making.stream_id, options, qos, std::move(account),
                                                 std::move(share), where);
  } catch (...) {
    end_making(making, nullptr);
    throw;
  }
  end_making(making, context);
  note_event("context", "create", llm_id, options.max_vram, name(qos));
  return context;
}

std::vector<std::shared_ptr<ExecutionContext>> MultiLLMController::contexts() const {
  std::lock_guard lock(mutex_);
  return contexts_;
}

std::shared_ptr<memory::Account> MultiLLMController::budget_account() const {
  std::lock_guard lock(mutex_);
  return budget_account_;
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
  const std::shared_ptr<ExecutionContext> context = find(llm_id);
  if (context == nullptr) return false;
  {
    std::lock_guard lock(mutex_);
    if (std::count(closing_.begin(), closing_.end(), context.get()) != 0) return false;
    closing_.push_back(context.get());
  }
  // Waits for the device, and signal handlers that run meanwhile may use this controller.
  try {
    context->close();
  } catch (...) {
    std::lock_guard lock(mutex_);
    std::erase(closing_, context.get());
    throw;
  }
  {
    std::lock_guard lock(mutex_);
    std::erase(closing_, context.get());
    std::erase(contexts_, context);
  }
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
  return context.stats(available_vram(context));
}

/// What it can still allocate: the rest of its base, and what is left of the budget beside everybody's base.
int64_t MultiLLMController::available_vram(const ExecutionContext& context) const {
  const std::shared_ptr<memory::Account> budget = budget_account();
  if (budget == nullptr) return 0;
  const int64_t used = context.used_vram();
  int64_t left = static_cast<int64_t>(budget->quota());
  for (const auto& account : memory::accounts(budget->device()))
    if (account->parent() == budget) left -= std::max(used_bytes(*account), static_cast<int64_t>(account->kept()));
  int64_t available = std::max<int64_t>(context.base_vram() - used, 0) + std::max<int64_t>(left, 0);
  if (const auto& root = budget->parent(); root != nullptr && root->quota() != 0)
    available = std::min(available, static_cast<int64_t>(root->quota()) - used_bytes(*root));
  if (context.max_vram() != 0) available = std::min(available, context.max_vram() - used);
  return std::max<int64_t>(available, 0);
}

int64_t MultiLLMController::used_vram() const {
  const std::shared_ptr<memory::Account> budget = budget_account();
  if (budget == nullptr) return 0;
  int64_t used = 0;  // not what the budget's account says: that is charged with bases that nobody uses yet
  for (const auto& account : memory::accounts(budget->device()))
    if (account->parent() == budget) used += used_bytes(*account);
  return used;
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
  std::lock_guard lock(mutex_);
  if (!contexts_.empty() || !making_.empty())
    throw Error("reset: another call makes or destroys a context; call it again");
  initialized_ = false;
  sessions_ = 0;
  device_ = {};
  total_memory_ = budget_ = 0;
  budget_account_ = nullptr;
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
