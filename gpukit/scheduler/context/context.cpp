#include "gpukit/scheduler/context/context.h"

#include <deque>

#include "gpukit/base/error.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/device.h"
#include "gpukit/scheduler/partition/partition_rest.h"

namespace gpukit::scheduler {

namespace {

/// How many futures that are over can still be asked for.
constexpr size_t kKeptFutures = 1024;

memory::Pool* pool_of(Device device) {
  return dynamic_cast<memory::Pool*>(runtime::open_device(device).resource.get());
}

std::shared_ptr<runtime::StreamGroup> make_group(Device device, PartitionShare* share) {
  if (share != nullptr) return share->make_group();
  auto group = SmGroups::of(device).make_group();
  PartitionRest::of(device).add_group(group);
  return group;
}

}  // namespace

const char* name(ContextState state) {
  switch (state) {
    case ContextState::idle: return "Idle";
    case ContextState::running: return "Running";
    case ContextState::paused: return "Paused";
  }
  return "?";
}

struct ExecutionContext::Futures {
  std::mutex mutex;
  uint64_t next = 1;
  std::map<uint64_t, std::shared_ptr<KernelFuture>> known;
  std::deque<uint64_t> over;
  bool closed = false;
  int64_t completed = 0, failed = 0, cancelled = 0;
  double exec_time = 0;

  void note_over(uint64_t id) {
    std::shared_ptr<KernelFuture> forgotten;
    std::lock_guard lock(mutex);
    auto found = known.find(id);
    if (found == known.end()) return;
    switch (found->second->state()) {
      case FutureState::completed:
        ++completed;
        exec_time += found->second->exec_time();
        break;
      case FutureState::failed: ++failed; break;
      default: ++cancelled; break;
    }
    over.push_back(id);
    if (over.size() <= kKeptFutures) return;
    auto oldest = known.find(over.front());
    forgotten = std::move(oldest->second);
    known.erase(oldest);
    over.pop_front();
  }
};

ExecutionContext::ExecutionContext(std::string llm_id, int stream_id, const ContextOptions& options, QosClass qos,
                                   std::shared_ptr<memory::Account> account, std::shared_ptr<PartitionShare> share,
                                   Device device)
    : llm_id_(std::move(llm_id)),
      stream_id_(stream_id),
      options_(options),
      qos_(qos),
      share_(std::move(share)),
      session_(std::make_unique<SessionOwner>("context '" + llm_id_ + "'", device, make_group(device, share_.get()),
                                              std::move(account))),
      futures_(std::make_shared<Futures>()) {
  if (share_ != nullptr) share_->enter_context();
}

ExecutionContext::~ExecutionContext() {
  for (const auto& [id, size] : buffers_) session_->account()->uncharge(static_cast<size_t>(size));
  if (share_ != nullptr && !left_share_) share_->leave_context();
}

int64_t ExecutionContext::used_vram() const { return used_bytes(*session_->account()); }

ContextStats ExecutionContext::stats(int64_t available_vram) const {
  ContextStats stats;
  stats.llm_id = llm_id_;
  stats.stream_id = stream_id_;
  stats.max_vram = options_.max_vram;
  stats.used_vram = used_vram();
  stats.available_vram = available_vram;
  const AsyncExecStats futures = async_stats();
  if (session_->entered() > 0 || futures.running_count > 0) stats.state = ContextState::running;
  stats.buffer_count = session_->account()->stats().live_blocks;
  std::lock_guard lock(mutex_);
  stats.buffer_count += static_cast<int64_t>(buffers_.size());
  return stats;
}

ContextUsage ExecutionContext::usage() const {
  ContextUsage usage;
  const memory::AccountStats charged = session_->account()->stats();
  usage.base_vram = options_.base_vram;
  usage.peak_vram = static_cast<int64_t>(charged.peak_charged_bytes);
  usage.cached_vram = static_cast<int64_t>(charged.cached_bytes);
  usage.qos = qos_;
  usage.sessions = session_->entered();
  for (const auto& stream : session_->group()->streams())
    usage.launches += static_cast<int64_t>(stream->sequence.load(std::memory_order_relaxed));
  if (share_ != nullptr) usage.partition = share_->usage();
  return usage;
}

bool ExecutionContext::track_allocation(uint64_t buffer_id, int64_t size) {
  if (size < 0) throw ArgumentError("track_allocation", "size", "be 0 or more", std::to_string(size));
  memory::Account& account = *session_->account();
  {
    std::lock_guard lock(mutex_);
    if (!buffers_.emplace(buffer_id, size).second)
      throw ArgumentError("track_allocation", "buffer_id", "be new", std::to_string(buffer_id) + ", which is tracked");
  }
  const auto bytes = static_cast<size_t>(size);
  bool fits = account.try_charge(bytes) == nullptr;
  if (!fits && account.cached_bytes() > 0) {
    // What is merely kept for reuse must not stand in the way.
    if (memory::Pool* pool = pool_of(session_->device())) pool->forget(account);
    fits = account.try_charge(bytes) == nullptr;
  }
  if (!fits) {
    std::lock_guard lock(mutex_);
    buffers_.erase(buffer_id);
  }
  return fits;
}

void ExecutionContext::track_deallocation(uint64_t buffer_id) {
  size_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    auto found = buffers_.find(buffer_id);
    if (found == buffers_.end())
      throw ArgumentError("track_deallocation", "buffer_id", "be one that is tracked", std::to_string(buffer_id));
    bytes = static_cast<size_t>(found->second);
    buffers_.erase(found);
  }
  session_->account()->uncharge(bytes);
}

// Futures

std::shared_ptr<KernelFuture> ExecutionContext::add_future() {
  std::shared_ptr<KernelFuture> future;
  {
    std::lock_guard lock(futures_->mutex);
    if (futures_->closed || session_->closed()) throw Error("dispatch_async: " + session_->what() + " was destroyed");
    const uint64_t id = futures_->next++;
    future = std::make_shared<KernelFuture>(id, stream_id_, llm_id_);
    future->before_end([futures = futures_, id] { futures->note_over(id); });
    futures_->known[id] = future;
  }
  return future;
}

std::shared_ptr<KernelFuture> ExecutionContext::dispatch() { return add_future(); }

std::shared_ptr<KernelFuture> ExecutionContext::dispatch(const std::function<std::optional<std::string>()>& submit) {
  SessionScope inside(*session_);
  std::shared_ptr<KernelFuture> future = begin_dispatch();
  try {
    if (auto output = submit()) future->set_output(std::move(*output));
    end_dispatch(future);
  } catch (const std::exception& error) {
    fail_dispatch(future, error.what());
  }
  return future;
}

void ExecutionContext::fail_dispatch(const std::shared_ptr<KernelFuture>& future, const std::string& error) {
  {
    std::lock_guard lock(mutex_);
    begun_.erase(future->id());
  }
  future->fail(error);
}

std::shared_ptr<KernelFuture> ExecutionContext::begin_dispatch() {
  std::shared_ptr<KernelFuture> future = add_future();
  begin_dispatch(future);
  return future;
}

bool ExecutionContext::begin_dispatch(const std::shared_ptr<KernelFuture>& future) {
  if (!future->mark_launched()) return false;
  try {
    const std::shared_ptr<driver::Stream> stream = runtime::resolve(session_->stream());
    stream->context().make_current();
    auto begin = std::make_shared<driver::Event>(stream->context(), true);
    begin->record(*stream);
    std::lock_guard lock(mutex_);
    begun_[future->id()] = std::move(begin);
  } catch (const std::exception& error) {
    future->fail(error.what());
    throw;
  }
  return true;
}

void ExecutionContext::end_dispatch(const std::shared_ptr<KernelFuture>& future) {
  std::shared_ptr<driver::Event> begin;
  {
    std::lock_guard lock(mutex_);
    auto node = begun_.extract(future->id());
    if (!node.empty()) begin = node.mapped();
  }
  const std::shared_ptr<driver::Stream> stream = runtime::resolve(session_->stream());
  stream->context().make_current();
  auto end = std::make_shared<driver::Event>(stream->context(), true);
  end->record(*stream);
  runtime::Waiter::of(stream->device()).add(stream, end, [future, begin, end, stream](int code) {
    if (code != 0) {
      future->fail("the device reported " + stream->api().error_name(code));
      return;
    }
    double seconds = 0;
    try {
      stream->context().make_current();
      if (begin != nullptr) seconds = driver::elapsed_ms(*begin, *end) / 1e3;
    } catch (const Error&) {
      // The time alone is unknown.
    }
    future->complete(seconds);
  });
}

std::shared_ptr<KernelFuture> ExecutionContext::future(uint64_t id) const {
  std::lock_guard lock(futures_->mutex);
  auto found = futures_->known.find(id);
  if (found == futures_->known.end())
    throw ArgumentError("get_future", "future id", "be one of context '" + llm_id_ + "'", std::to_string(id));
  return found->second;
}

std::vector<uint64_t> ExecutionContext::pending_futures() const {
  std::lock_guard lock(futures_->mutex);
  std::vector<uint64_t> ids;
  for (const auto& [id, future] : futures_->known)
    if (future->state() == FutureState::pending) ids.push_back(id);
  return ids;
}

AsyncExecStats ExecutionContext::async_stats() const {
  AsyncExecStats stats;
  std::lock_guard lock(futures_->mutex);
  stats.total_dispatched = static_cast<int64_t>(futures_->next - 1);
  stats.completed_count = futures_->completed;
  stats.failed_count = futures_->failed;
  stats.cancelled_count = futures_->cancelled;
  for (const auto& [id, future] : futures_->known) {
    if (future->state() == FutureState::pending) ++stats.pending_count;
    if (future->state() == FutureState::running) ++stats.running_count;
  }
  if (stats.completed_count > 0) stats.avg_exec_time = futures_->exec_time / static_cast<double>(stats.completed_count);
  return stats;
}

void ExecutionContext::close() {
  session_->close("destroy_context");
  std::vector<std::shared_ptr<KernelFuture>> open;
  {
    std::lock_guard lock(futures_->mutex);
    futures_->closed = true;
    for (const auto& [id, future] : futures_->known)
      if (!future->is_ready()) open.push_back(future);
  }
  // Its streams are idle, so whatever still runs waits for a mark that cannot come any more.
  for (const auto& future : open)
    if (!future->cancel()) future->fail(session_->what() + " was destroyed before it was marked as over");
  session_->account()->close();
  session_->account()->try_keep(0);
  if (memory::Pool* pool = pool_of(session_->device())) pool->forget(*session_->account());
  std::map<uint64_t, int64_t> tracked;
  {
    std::lock_guard lock(mutex_);
    tracked.swap(buffers_);
    if (share_ != nullptr && !left_share_) share_->leave_context();
    left_share_ = true;
  }
  for (const auto& [id, size] : tracked) session_->account()->uncharge(static_cast<size_t>(size));
  if (share_ != nullptr) share_->close("destroy_context");
}

}  // namespace gpukit::scheduler
