#include "gpukit/runtime/pinned_manager.h"

#include <algorithm>

#include "gpukit/base/error.h"

namespace gpukit::runtime {

namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr int64_t kClasses[] = {4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB};
constexpr int64_t kMaxBytes = int64_t{1} << 62;

void check_size(const char* op, int64_t bytes) {
  if (bytes < 0 || bytes > kMaxBytes) throw ArgumentError(op, "size", "be 0 to 2^62", std::to_string(bytes));
}

}  // namespace

void PinnedPoolConfig::check() const {
  const char* op = "PinnedPoolConfig";
  check_size(op, max_size);
  if (alignment < 1 || alignment > kMiB || (alignment & (alignment - 1)) != 0)
    throw ArgumentError(op, "alignment", "be a power of two up to 1 MiB", std::to_string(alignment));
}

int64_t PinnedPoolConfig::size_class(int64_t bytes) const {
  check_size("get_size_class", bytes);
  for (int64_t size : kClasses)
    if (bytes <= size) return size;
  return (bytes + alignment - 1) / alignment * alignment;
}

double PinnedStats::hit_rate() const {
  const int64_t asked = pool_hits + pool_misses;
  return asked == 0 ? 0.0 : static_cast<double>(pool_hits) / static_cast<double>(asked);
}

PinnedManager::PinnedManager(PinnedPoolConfig config, Clock& clock) : config_(config), clock_(clock) {
  config_.check();
}

bool PinnedManager::fits(int64_t bytes) const {
  return bytes <= config_.max_size - stats_.current_used - stats_.pool_size;
}

bool PinnedManager::can_allocate(int64_t bytes) const {
  const int64_t size = config_.size_class(bytes);
  std::lock_guard lock(mutex_);
  auto kept = pool_.find(size);
  return (kept != pool_.end() && !kept->second.empty()) || fits(size);
}

PinnedManager::Allocation PinnedManager::allocate(int64_t bytes) {
  const int64_t size = config_.size_class(bytes);
  std::lock_guard lock(mutex_);
  auto kept = pool_.find(size);
  const bool reused = kept != pool_.end();
  if (!reused && !fits(size)) {
    throw OutOfMemoryError("PinnedMemoryManager.allocate: out of page-locked memory: asked " + std::to_string(size) +
                               " bytes; " + std::to_string(stats_.current_used) + " in use and " +
                               std::to_string(stats_.pool_size) + " kept for reuse of " +
                               std::to_string(config_.max_size) + "; clear_pool() gives kept blocks back",
                           size, stats_.current_used, config_.max_size);
  }
  PinnedBlock block;
  block.id = next_id_++;
  block.bytes = size;
  block.allocated_ns = block.last_access_ns = clock_.now_ns();
  if (reused) {
    block.address = kept->second.back();
    kept->second.pop_back();
    if (kept->second.empty()) pool_.erase(kept);
    stats_.pool_size -= size;
    --stats_.pooled_blocks;
    ++stats_.pool_hits;
  } else {
    stats_.total_allocated += size;
    ++stats_.pool_misses;
  }
  ++stats_.total_allocations;
  stats_.current_used += size;
  stats_.peak_used = std::max(stats_.peak_used, stats_.current_used);
  blocks_.emplace(block.id, block);
  return {block.id, size, reused};
}

PinnedBlock& PinnedManager::at(const char* op, uint64_t id) {
  auto found = blocks_.find(id);
  if (found == blocks_.end()) throw ArgumentError(op, "id", "be of a block in use", std::to_string(id));
  return found->second;
}

void PinnedManager::register_block(uint64_t id, uint64_t address, int64_t bytes) {
  const char* op = "PinnedMemoryManager.register";
  check_size(op, bytes);
  if (address == 0) throw ArgumentError(op, "host_ptr", "not be 0", "0");
  std::lock_guard lock(mutex_);
  PinnedBlock& block = at(op, id);
  if (bytes > block.bytes && !fits(bytes - block.bytes))
    throw ArgumentError(op, "size", "stay within max_size", std::to_string(bytes));
  stats_.current_used += bytes - block.bytes;
  stats_.peak_used = std::max(stats_.peak_used, stats_.current_used);
  block.address = address;
  block.bytes = bytes;
  block.last_access_ns = clock_.now_ns();
}

PinnedManager::Freed PinnedManager::free_locked(uint64_t id) {
  auto node = blocks_.extract(id);
  const PinnedBlock& block = node.mapped();
  stats_.current_used -= block.bytes;
  ++stats_.total_frees;
  // Only memory of a whole class can serve another request of it.
  if (block.address == 0 || !config_.enable_pooling || config_.size_class(block.bytes) != block.bytes)
    return {block.address != 0, block.address};
  pool_[block.bytes].push_back(block.address);
  stats_.pool_size += block.bytes;
  ++stats_.pooled_blocks;
  return {false, block.address};
}

PinnedManager::Freed PinnedManager::free(uint64_t id) {
  std::lock_guard lock(mutex_);
  at("PinnedMemoryManager.free", id);
  return free_locked(id);
}

void PinnedManager::associate_task(uint64_t id, std::string task_id) {
  std::lock_guard lock(mutex_);
  at("PinnedMemoryManager.associate_task", id).task_id = std::move(task_id);
}

void PinnedManager::touch(uint64_t id) {
  std::lock_guard lock(mutex_);
  at("PinnedMemoryManager.touch", id).last_access_ns = clock_.now_ns();
}

std::optional<PinnedBlock> PinnedManager::find(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto found = blocks_.find(id);
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

std::vector<uint64_t> PinnedManager::blocks_of_task(const std::string& task_id) const {
  std::vector<uint64_t> ids;
  std::lock_guard lock(mutex_);
  for (const auto& [id, block] : blocks_)
    if (block.task_id == task_id) ids.push_back(id);
  return ids;
}

std::vector<PinnedManager::Freed> PinnedManager::free_task_blocks(const std::string& task_id) {
  std::vector<uint64_t> ids = blocks_of_task(task_id);
  std::vector<Freed> freed;
  std::lock_guard lock(mutex_);
  for (uint64_t id : ids)
    if (blocks_.contains(id)) freed.push_back(free_locked(id));
  return freed;
}

PinnedStats PinnedManager::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

int64_t PinnedManager::active_count() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(blocks_.size());
}

std::vector<uint64_t> PinnedManager::clear_pool() {
  std::vector<uint64_t> addresses;
  std::lock_guard lock(mutex_);
  for (const auto& [bytes, list] : pool_) addresses.insert(addresses.end(), list.begin(), list.end());
  pool_.clear();
  stats_.pool_size = stats_.pooled_blocks = 0;
  return addresses;
}

std::vector<uint64_t> PinnedManager::clear() {
  std::vector<uint64_t> addresses = clear_pool();
  std::lock_guard lock(mutex_);
  for (const auto& [id, block] : blocks_)
    if (block.address != 0) addresses.push_back(block.address);
  stats_.total_frees += static_cast<int64_t>(blocks_.size());
  stats_.current_used = 0;
  blocks_.clear();
  return addresses;
}

}  // namespace gpukit::runtime
