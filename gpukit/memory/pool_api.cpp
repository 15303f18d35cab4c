#include "gpukit/memory/pool_api.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>

#include "gpukit/base/error.h"
#include "gpukit/base/fork.h"
#include "gpukit/memory/mover.h"
#include "gpukit/memory/size_class.h"

namespace gpukit::memory {

namespace {

constexpr size_t kMiB = size_t{1} << 20;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

size_t checked_quota(size_t quota) {
  if (quota == 0) throw ArgumentError("MemoryPool", "quota", "be positive", "0");
  return quota;
}

struct DefaultPool {
  std::atomic<bool> set{false};
  std::mutex mutex;
  std::shared_ptr<MemoryPool> pool;
};

DefaultPool& default_state() {
  static auto* state = new DefaultPool;
  return *state;
}

std::mutex& default_mutex() { return default_state().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<default_mutex>();

}  // namespace

/// The MemoryPools of the process, for forks.
struct MemoryPool::All {
  std::mutex mutex;
  std::vector<MemoryPool*> list;

  static All& get() {
    static auto* value = new All;
    return *value;
  }
  static void lock() {
    get().mutex.lock();
    for (MemoryPool* pool : get().list) pool->mutex_.lock();
  }
  static void unlock() {
    for (MemoryPool* pool : get().list) pool->mutex_.unlock();
    get().mutex.unlock();
  }
  static const bool held_at_fork;
};

const bool MemoryPool::All::held_at_fork = (get(), at_fork(ForkOrder::user_pools, lock, unlock, unlock));

size_t MemoryPool::size_class(size_t size) {
  for (size_t known : kSizeClasses)
    if (size <= known) return known;
  return size > SIZE_MAX - kMiB ? size : round_up(size, kMiB);
}

MemoryPool::MemoryPool(Pool& pool, std::shared_ptr<driver::Stream> stream, size_t quota, bool eviction,
                       std::string name)
    : pool_(pool),
      stream_(std::move(stream)),
      account_(Account::create(std::move(name), pool.context().device(), checked_quota(quota), eviction, pool.root())) {
  account_->set_movable(true);
  std::lock_guard lock(All::get().mutex);
  All::get().list.push_back(this);
}

MemoryPool::~MemoryPool() {
  {
    std::lock_guard lock(All::get().mutex);
    std::erase(All::get().list, this);
  }
  account_->close();
  blocks_.clear();
  pool_.forget(*account_);
}

size_t MemoryPool::sum(size_t (Account::*bytes)() const) const {
  size_t all = 0;
  for (const auto& one : accounts(account_->device()))
    if (account_->contains(*one)) all += (*one.*bytes)();
  return all;
}

size_t MemoryPool::available() const {
  const size_t quota = this->quota(), used = this->used();
  return used < quota ? quota - used : 0;
}

MemoryPool::Entry& MemoryPool::find(const char* op, uint64_t id) {
  auto found = blocks_.find(id);
  if (found == blocks_.end()) throw ArgumentError(op, "block", "be the number of a live block", std::to_string(id));
  return found->second;
}

std::shared_ptr<Storage> MemoryPool::used_now(const char* op, uint64_t id) {
  std::lock_guard lock(mutex_);
  Entry& entry = find(op, id);
  entry.last_access = now();
  return entry.storage;
}

uint64_t MemoryPool::allocate(size_t size) {
  const size_t rounded = size_class(size);
  auto storage = Storage::allocate(pool_, rounded, stream_, account_);
  std::lock_guard lock(mutex_);
  blocks_[next_id_] = {std::move(storage), rounded, now(), {}, {}};
  return next_id_++;
}

void MemoryPool::free(uint64_t id) {
  Entry gone;  // after the lock
  std::lock_guard lock(mutex_);
  gone = std::move(find("free", id));
  blocks_.erase(id);
}

void MemoryPool::touch(uint64_t id) { used_now("touch", id)->touch(); }
void MemoryPool::evict(uint64_t id) { used_now("evict", id)->evict(); }
void MemoryPool::restore(uint64_t id) { used_now("restore", id)->restore(); }

void MemoryPool::copy(const char* op, uint64_t id, void* host, size_t bytes, bool in) {
  const std::shared_ptr<Storage> storage = used_now(op, id);
  if (bytes > storage->bytes())
    throw ArgumentError(op, "data", "fit the block of " + std::to_string(storage->bytes()) + " bytes",
                        std::to_string(bytes));
  const Use use{&storage, 0, in};
  if (in)
    mover().write(op, stream_, use, host, bytes);
  else
    mover().read(op, stream_, host, use, bytes);
  storage->touch();
}

void MemoryPool::write(uint64_t id, const void* data, size_t bytes) {
  copy("write", id, const_cast<void*>(data), bytes, true);
}

void MemoryPool::read(uint64_t id, void* data, size_t bytes) { copy("read", id, data, bytes, false); }

std::optional<PoolBlock> MemoryPool::get_block(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto found = blocks_.find(id);
  if (found == blocks_.end()) return std::nullopt;
  const Entry& entry = found->second;
  PoolBlock block;
  block.id = id;
  block.size = entry.size;
  block.on_gpu = entry.storage->resident();
  block.on_host = !block.on_gpu;
  if (block.on_gpu) block.pointer = entry.pointer;
  block.storage = entry.storage;
  block.last_access = entry.last_access;
  return block;
}

std::optional<uint64_t> PoolBlock::device_ptr() const {
  if (pointer) return pointer;
  const std::shared_ptr<Storage> live = storage.lock();
  if (live == nullptr || !live->resident()) return std::nullopt;
  return live->pin();  // for life: whoever got it never says that it is done
}

MemoryPoolStats MemoryPool::stats() const {
  const AccountStats account = account_->stats();
  MemoryPoolStats stats;
  stats.quota = account.quota;
  stats.used = used();
  stats.cached = cached();
  stats.available = available();
  stats.allocation_count = account.allocations;
  stats.reuse_count = account.reuses;
  stats.eviction_count = account.evictions;
  stats.cudamalloc_count = account.allocations - account.reuses;
  stats.free_blocks = account.cached_blocks;
  std::lock_guard lock(mutex_);
  stats.active_blocks = static_cast<int64_t>(blocks_.size());
  return stats;
}

void MemoryPool::clear() {
  std::map<uint64_t, Entry> gone;
  {
    std::lock_guard lock(mutex_);
    gone.swap(blocks_);
  }
  gone.clear();
  pool_.forget(*account_);
}

void MemoryPool::set_device_ptr(uint64_t id, std::optional<uint64_t> pointer) {
  std::lock_guard lock(mutex_);
  find("set_device_ptr", id).pointer = pointer;
}

void MemoryPool::set_host_data(uint64_t id, std::string bytes) {
  std::lock_guard lock(mutex_);
  find("set_host_data", id).host_data = std::move(bytes);
}

void MemoryPool::clear_host_data(uint64_t id) {
  std::lock_guard lock(mutex_);
  find("clear_host_data", id).host_data.reset();
}

std::optional<std::string> MemoryPool::get_host_data(uint64_t id) {
  std::shared_ptr<Storage> storage;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = find("get_host_data", id);
    if (entry.host_data) return entry.host_data;
    storage = entry.storage;
  }
  if (storage->resident()) return std::nullopt;
  return storage->evicted_bytes();
}

void set_default_pool(std::shared_ptr<MemoryPool> pool) {
  DefaultPool& state = default_state();
  std::lock_guard lock(state.mutex);
  state.pool.swap(pool);
  state.set.store(state.pool != nullptr, std::memory_order_release);
}

std::shared_ptr<MemoryPool> default_pool() {
  DefaultPool& state = default_state();
  std::lock_guard lock(state.mutex);
  return state.pool;
}

std::shared_ptr<Account> default_account(Device device) {
  DefaultPool& state = default_state();
  if (!state.set.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  std::lock_guard lock(state.mutex);
  return state.pool != nullptr && state.pool->device() == device ? state.pool->account() : nullptr;
}

}  // namespace gpukit::memory
