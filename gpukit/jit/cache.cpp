#include "gpukit/jit/cache.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/log.h"

namespace gpukit::jit {
namespace {

constexpr size_t kMaxEntryBytes = size_t{256} << 20;
constexpr std::string_view kSuffix = ".gpukit";

std::string file_name(const Key& key) { return hex(key) + std::string(kSuffix); }

bool is_entry(const files::Entry& entry) {
  return entry.regular && entry.owned && entry.name.size() == 64 + kSuffix.size() && entry.name.ends_with(kSuffix);
}

std::string configured_folder() {
  std::string folder = env::cache_dir();
  if (!folder.empty()) return folder;
  const auto base = files::user_cache_folder();
  return base ? files::join(*base, "pygpukit") : std::string();
}

class Cache {
 public:
  std::optional<Image> read(const Key& key) {
    const files::PrivateFolder* folder = open();
    if (folder == nullptr) return {};
    const std::string name = file_name(key);
    std::optional<Image> image;
    try {
      if (const auto bytes = folder->read(name, kMaxEntryBytes)) image = decode(key, *bytes);
    } catch (const std::exception&) {
      // An unreadable entry is a miss; the next write replaces it.
    }
    if (image) {
      ++hits;
      folder->touch(name);
    } else {
      ++misses;
    }
    return image;
  }

  void write(const Key& key, const Image& image) {
    const files::PrivateFolder* folder = open();
    if (folder == nullptr || writes_failed_.load()) return;
    try {
      const std::string bytes = encode(key, image);
      if (bytes.size() > kMaxEntryBytes) return;
      const std::string name = file_name(key);
      folder->write(name, bytes);
      ++writes;
      trim(*folder, static_cast<int64_t>(bytes.size()));
    } catch (const std::exception& e) {
      writes_failed_ = true;
      log(LogLevel::warning, "kernel cache " + folder->path() + " is not written to any more: " + e.what());
    }
  }

  CacheStats stats() {
    CacheStats result;
    result.max_bytes = env::cache_max_mb() << 20;
    const files::PrivateFolder* folder = open();
    {
      std::lock_guard lock(mutex_);
      result.folder = path_;
      result.reason = reason_;
    }
    result.hits = hits.load();
    result.misses = misses.load();
    result.writes = writes.load();
    if (folder == nullptr) return result;
    result.enabled = true;
    for (const files::Entry& entry : entries(*folder)) {
      ++result.entries;
      result.bytes += entry.size;
    }
    return result;
  }

  int64_t clear() {
    const files::PrivateFolder* folder = open();
    int64_t removed = 0;
    if (folder == nullptr) return removed;
    std::lock_guard lock(mutex_);
    for (const files::Entry& entry : entries(*folder)) removed += folder->remove(entry.name) ? 1 : 0;
    known_bytes_ = 0;
    return removed;
  }

 private:
  /// The folder, or null when the cache is off. Decided once.
  const files::PrivateFolder* open() {
    std::string warning;
    const files::PrivateFolder* folder = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!opened_) warning = open_locked();
      folder = folder_ ? &*folder_ : nullptr;
    }
    if (!warning.empty()) log(LogLevel::warning, warning);
    return folder;
  }

  std::string open_locked() {
    opened_ = true;
    if (!env::cache_enabled()) {
      reason_ = "PYGPUKIT_CACHE=off";
      return {};
    }
    path_ = configured_folder();
    try {
      if (path_.empty()) throw Error("no home folder is known; set PYGPUKIT_CACHE_DIR");
      folder_ = files::PrivateFolder::open(path_);
    } catch (const std::exception& e) {
      reason_ = e.what();
      return "kernel cache is off: " + reason_;
    }
    return {};
  }

  static std::vector<files::Entry> entries(const files::PrivateFolder& folder) {
    std::vector<files::Entry> found;
    try {
      found = folder.list();
    } catch (const std::exception&) {
      return {};
    }
    std::erase_if(found, [](const files::Entry& entry) { return !is_entry(entry); });
    return found;
  }

  /// Looks at the folder only when this process's own writes may have filled it.
  void trim(const files::PrivateFolder& folder, int64_t added) {
    const int64_t limit = env::cache_max_mb() << 20;
    std::lock_guard lock(mutex_);
    if (known_bytes_ >= 0 && (known_bytes_ += added) <= limit) return;
    std::vector<files::Entry> found = entries(folder);
    int64_t total = 0;
    for (const files::Entry& entry : found) total += entry.size;
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.modified_ns < b.modified_ns; });
    for (const files::Entry& entry : found) {
      if (total <= limit) break;
      if (folder.remove(entry.name)) total -= entry.size;
    }
    known_bytes_ = total;
  }

  std::mutex mutex_;
  bool opened_ = false;
  std::optional<files::PrivateFolder> folder_;
  std::string path_, reason_;
  int64_t known_bytes_ = -1;  // bytes in the folder as last counted; -1: not counted yet
  std::atomic<bool> writes_failed_{false};

 public:
  std::atomic<int64_t> hits{0}, misses{0}, writes{0};
};

std::atomic<Cache*> current{nullptr};

/// Leaked: it may be used until the very end of the process.
Cache& cache() {
  Cache* found = current.load();
  if (found != nullptr) return *found;
  Cache* fresh = new Cache;
  if (current.compare_exchange_strong(found, fresh)) return *fresh;
  delete fresh;
  return *found;
}

}  // namespace

std::optional<Image> cache_read(const Key& key) { return cache().read(key); }
void cache_write(const Key& key, const Image& image) { cache().write(key, image); }
CacheStats cache_stats() { return cache().stats(); }
int64_t cache_clear() { return cache().clear(); }

void cache_reset() {
  static auto* former = new std::vector<Cache*>;  // threads may still be in one
  env::reread();
  former->push_back(current.exchange(new Cache));
}

}  // namespace gpukit::jit
