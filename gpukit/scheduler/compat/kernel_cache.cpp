#include "gpukit/scheduler/compat/kernel_cache.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"
#include "gpukit/base/sha256.h"
#include "gpukit/scheduler/dispatch/dispatch_queue.h"

namespace gpukit::scheduler {
namespace {

/// The options as one text that has one reading.
std::string text_of(const CompileOptions& options) {
  std::string text;
  auto add = [&](std::string_view part) {
    text += std::to_string(part.size());
    text += ':';
    text += part;
  };
  add(options.compute_capability);
  text += 'f';
  for (const std::string& flag : options.flags) add(flag);
  text += 'd';
  for (const auto& [name, value] : options.defines) {
    add(name);
    add(value);
  }
  text += 'i';
  for (const std::string& path : options.includes) add(path);
  return text;
}

}  // namespace

uint64_t hash_fields(const std::vector<std::string_view>& fields) {
  Sha256 hash;
  for (std::string_view field : fields) hash.field(field);
  const Sha256Digest digest = hash.finish();
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | digest[static_cast<size_t>(i)];
  return value;
}

CompileOptions CompileOptions::flag(std::string text) const {
  CompileOptions changed = *this;
  changed.flags.push_back(std::move(text));
  return changed;
}

CompileOptions CompileOptions::define(std::string name, std::string value) const {
  CompileOptions changed = *this;
  changed.defines.emplace_back(std::move(name), std::move(value));
  return changed;
}

CompileOptions CompileOptions::include(std::string path) const {
  CompileOptions changed = *this;
  changed.includes.push_back(std::move(path));
  return changed;
}

double CacheStats::hit_rate() const {
  return hits + misses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
}

KernelCache::KernelCache(const CacheConfig& config, Clock& clock) : config_(config), clock_(clock) {
  if (config.max_entries < 1)
    throw ArgumentError("CacheConfig", "max_entries", "be at least 1", std::to_string(config.max_entries));
  if (config.max_ptx_size < 1)
    throw ArgumentError("CacheConfig", "max_ptx_size", "be at least 1 byte", std::to_string(config.max_ptx_size));
  if (!(config.ttl_seconds >= 0))
    throw ArgumentError("CacheConfig", "ttl_seconds", "be 0 (off) or more", number_text(config.ttl_seconds));
}

uint64_t KernelCache::compute_key(std::string_view source, std::string_view name, const CompileOptions& options) {
  return hash_fields({source, name, text_of(options)});
}

uint64_t KernelCache::hash_source(std::string_view source) { return hash_fields({source}); }

bool KernelCache::expired(const Entry& entry) const {
  return config_.ttl_seconds > 0 &&
         static_cast<double>(clock_.now_ns() - entry.inserted_ns) * 1e-9 > config_.ttl_seconds;
}

void KernelCache::drop(Entries::iterator found) {
  const Entry& entry = found->second;
  if (auto alias = aliases_.find(entry.alias); alias != aliases_.end() && alias->second == found->first)
    aliases_.erase(alias);
  stats_.ptx_size -= static_cast<int64_t>(entry.kernel.ptx.size());
  uses_.erase(entry.use);
  entries_.erase(found);
}

std::optional<CachedKernel> KernelCache::look_up(Entries::iterator found) {
  if (found != entries_.end() && expired(found->second)) {
    drop(found);
    ++stats_.ttl_evictions;
    found = entries_.end();
  }
  if (found == entries_.end()) {
    ++stats_.misses;
    return std::nullopt;
  }
  Entry& entry = found->second;
  ++stats_.hits;
  ++entry.kernel.access_count;
  entry.kernel.last_access = timestamp(clock_);
  uses_.splice(uses_.begin(), uses_, entry.use);
  return entry.kernel;
}

std::optional<CachedKernel> KernelCache::get(uint64_t key) {
  std::lock_guard lock(mutex_);
  return look_up(entries_.find(key));
}

std::optional<CachedKernel> KernelCache::get_by_name(const std::string& name, const CompileOptions& options) {
  std::lock_guard lock(mutex_);
  auto alias = aliases_.find(name + '\0' + text_of(options));
  return look_up(alias == aliases_.end() ? entries_.end() : entries_.find(alias->second));
}

uint64_t KernelCache::insert(std::string_view source, const std::string& name, std::string ptx,
                             const CompileOptions& options) {
  const uint64_t key = compute_key(source, name, options);
  const auto bytes = static_cast<int64_t>(ptx.size());
  if (bytes > config_.max_ptx_size) {
    throw ArgumentError("KernelCache.insert", "ptx", "be at most " + std::to_string(config_.max_ptx_size) + " bytes",
                        std::to_string(bytes));
  }
  std::lock_guard lock(mutex_);
  if (auto found = entries_.find(key); found != entries_.end()) drop(found);
  auto full = [&] {
    return static_cast<int64_t>(entries_.size()) >= config_.max_entries ||
           stats_.ptx_size + bytes > config_.max_ptx_size;
  };
  if (full() && !config_.enable_eviction) {
    throw Error("KernelCache.insert: the cache is full (" + std::to_string(entries_.size()) + " entries, " +
                std::to_string(stats_.ptx_size) + " bytes) and enable_eviction is off");
  }
  while (full()) {
    drop(entries_.find(uses_.back()));
    ++stats_.evictions;
  }
  Entry& entry = entries_[key];
  entry.kernel.key = key;
  entry.kernel.name = name;
  entry.kernel.ptx = std::move(ptx);
  entry.kernel.created_at = entry.kernel.last_access = timestamp(clock_);
  entry.inserted_ns = clock_.now_ns();
  entry.alias = name + '\0' + text_of(options);
  aliases_[entry.alias] = key;
  uses_.push_front(key);
  entry.use = uses_.begin();
  stats_.ptx_size += bytes;
  return key;
}

bool KernelCache::set_handles(uint64_t key, uint64_t module, uint64_t function) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  found->second.kernel.module_handle = module;
  found->second.kernel.function_handle = function;
  return true;
}

bool KernelCache::remove(uint64_t key) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  drop(found);
  return true;
}

bool KernelCache::contains(uint64_t key) const {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  return found != entries_.end() && !expired(found->second);
}

std::vector<std::string> KernelCache::kernel_names() const {
  std::lock_guard lock(mutex_);
  std::set<std::string> names;
  for (const auto& [key, entry] : entries_) names.insert(entry.kernel.name);
  return {names.begin(), names.end()};
}

int64_t KernelCache::clear_expired() {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> old;
  for (const auto& [key, entry] : entries_)
    if (expired(entry)) old.push_back(key);
  for (uint64_t key : old) drop(entries_.find(key));
  stats_.ttl_evictions += static_cast<int64_t>(old.size());
  return static_cast<int64_t>(old.size());
}

CacheStats KernelCache::stats() const {
  std::lock_guard lock(mutex_);
  CacheStats stats = stats_;
  stats.entries = static_cast<int64_t>(entries_.size());
  for (const auto& [key, entry] : entries_) stats.loaded_count += entry.kernel.is_loaded() ? 1 : 0;
  return stats;
}

int64_t KernelCache::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

void KernelCache::clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
  uses_.clear();
  aliases_.clear();
  stats_.ptx_size = 0;
}

}  // namespace gpukit::scheduler
