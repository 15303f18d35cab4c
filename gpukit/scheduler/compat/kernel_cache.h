// A cache of compiled kernels in memory, for programs that compile by themselves. The library's own kernels are cached
// by jit/cache.h.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpukit/base/clock.h"

namespace gpukit::scheduler {

struct CompileOptions {
  std::string compute_capability = "sm_75";
  std::vector<std::string> flags;
  std::vector<std::pair<std::string, std::string>> defines;  // name, value
  std::vector<std::string> includes;

  // Each gives a changed copy.
  CompileOptions flag(std::string text) const;
  CompileOptions define(std::string name, std::string value) const;
  CompileOptions include(std::string path) const;
  friend bool operator==(const CompileOptions&, const CompileOptions&) = default;
};

struct CacheConfig {
  int64_t max_entries = 1024;
  int64_t max_ptx_size = int64_t{256} << 20;
  bool enable_eviction = true;  // off: a full cache refuses
  double ttl_seconds = 0;       // since insertion; 0: entries do not expire
};

struct CachedKernel {
  uint64_t key = 0;
  std::string name, ptx;
  std::optional<uint64_t> module_handle, function_handle;
  double created_at = 0, last_access = 0;  // seconds since 1970, or of a test's clock
  int64_t access_count = 0;
  bool is_loaded() const { return module_handle.has_value() && function_handle.has_value(); }
};

struct CacheStats {
  int64_t hits = 0, misses = 0, entries = 0, ptx_size = 0, evictions = 0, ttl_evictions = 0, loaded_count = 0;
  /// Hits of all lookups; 0 before the first.
  double hit_rate() const;
};

/// Entries are dropped least recently used first, by count and by bytes of PTX. Thread-safe.
class KernelCache {
 public:
  explicit KernelCache(const CacheConfig& config = {}, Clock& clock = real_clock());
  const CacheConfig& config() const { return config_; }

  static uint64_t compute_key(std::string_view source, std::string_view name, const CompileOptions& options);
  static uint64_t hash_source(std::string_view source);

  /// Counts as a hit or a miss.
  std::optional<CachedKernel> get(uint64_t key);
  /// What was inserted last under this name with these options.
  std::optional<CachedKernel> get_by_name(const std::string& name, const CompileOptions& options);
  /// Replaces an entry of the same key. Throws ArgumentError for a PTX larger than the cache, Error when it is full and
  /// may not evict.
  uint64_t insert(std::string_view source, const std::string& name, std::string ptx, const CompileOptions& options);
  bool set_handles(uint64_t key, uint64_t module, uint64_t function);
  bool remove(uint64_t key);
  bool contains(uint64_t key) const;              // and not expired
  std::vector<std::string> kernel_names() const;  // sorted, each once
  int64_t clear_expired();
  CacheStats stats() const;
  int64_t size() const;
  void clear();

 private:
  struct Entry {
    CachedKernel kernel;
    std::string alias;  // name and options
    std::list<uint64_t>::iterator use;
    int64_t inserted_ns = 0;
  };
  using Entries = std::unordered_map<uint64_t, Entry>;
  bool expired(const Entry& entry) const;
  void drop(Entries::iterator entry);
  std::optional<CachedKernel> look_up(Entries::iterator entry);

  const CacheConfig config_;
  Clock& clock_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::list<uint64_t> uses_;  // the most recent first
  std::map<std::string, uint64_t> aliases_;
  CacheStats stats_;
};

/// The first 8 bytes of a SHA-256 over length-prefixed fields.
uint64_t hash_fields(const std::vector<std::string_view>& fields);

}  // namespace gpukit::scheduler
