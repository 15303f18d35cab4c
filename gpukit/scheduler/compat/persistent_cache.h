// A cache of compiled kernels on disk, for programs that compile by themselves. The library's own kernels are cached by
// jit/cache.h.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/base/files.h"

namespace gpukit::scheduler {

/// What compiled code depends on.
struct ArchFingerprint {
  int64_t sm_version = 0;
  int64_t global_memory = 0, shared_memory_per_sm = 0, max_registers_per_block = 0, l2_cache_size = 0;
  int64_t driver_version = 0;

  uint64_t hash() const;
  /// Same chip generation and driver: code of one runs on the other.
  bool is_compatible(const ArchFingerprint& other) const;
  friend bool operator==(const ArchFingerprint&, const ArchFingerprint&) = default;
};

struct PersistentCacheConfig {
  std::string cache_dir;  // empty: ~/.pygpukit/cache
  int64_t max_size = int64_t{512} << 20;
  int64_t max_entries = 1000;
  bool auto_cleanup = true;  // when opened
  double ttl_seconds = 0;    // since insertion; 0: entries do not expire
};

struct PersistentEntry {
  std::string name, ptx;
  uint64_t source_hash = 0, options_hash = 0;
  double created_at = 0, last_access = 0;  // seconds since 1970
  int64_t access_count = 0;
  int64_t ptx_size() const { return static_cast<int64_t>(ptx.size()); }
};

struct PersistentCacheStats {
  int64_t entries = 0, total_size = 0, hits = 0, misses = 0, evictions = 0, load_errors = 0, save_errors = 0;
  double hit_rate() const;
};

/// A folder of this user alone: `index.json`, and one `<16 hex digits>.ptx.json` for each entry with a checksum. A file
/// that cannot be read, is cut or changed, or is of another chip, is a miss and is removed. Other processes may use the
/// folder too: what they write is found. Thread-safe.
class PersistentCache {
 public:
  /// Touches no file. Throws ArgumentError for a config that holds nothing, Error when no home folder is known.
  PersistentCache(const PersistentCacheConfig& config, const ArchFingerprint& arch);
  const PersistentCacheConfig& config() const { return config_; }
  const ArchFingerprint& arch() const { return arch_; }
  const std::string& path() const { return path_; }

  /// Opens the folder, making it when missing. Every other call does so too. Throws FileError.
  void initialize();

  static uint64_t compute_key(uint64_t source_hash, std::string_view name, uint64_t options_hash, uint64_t arch_hash);
  static uint64_t hash_source(std::string_view source);
  static uint64_t hash_options(const std::vector<std::string>& options);

  std::optional<PersistentEntry> get(uint64_t key);
  /// Throws ArgumentError for a PTX larger than the cache, FileError when it cannot be written.
  uint64_t insert(std::string_view source, const std::string& name, const std::vector<std::string>& options,
                  const std::string& ptx);
  bool remove(uint64_t key);
  void clear();
  /// Removes what has expired, then the least recently used until the limits hold. Returns how many.
  int64_t cleanup();
  bool contains(uint64_t key);
  int64_t size();
  PersistentCacheStats stats();

 private:
  struct Known {
    int64_t bytes = 0;  // of the file
    double created_at = 0, last_access = 0;
    int64_t access_count = 0;
  };
  // Each needs the lock.
  files::PrivateFolder& folder();
  void read_index();
  void write_index();
  void drop(uint64_t key);
  int64_t make_room(int64_t entries, int64_t bytes);
  int64_t clean();

  const PersistentCacheConfig config_;
  const ArchFingerprint arch_;
  std::string path_;
  std::mutex mutex_;
  std::optional<files::PrivateFolder> folder_;
  std::map<uint64_t, Known> known_;
  int64_t total_bytes_ = 0;
  PersistentCacheStats stats_;
};

}  // namespace gpukit::scheduler
