// Compiled kernels on disk, shared by every process of the user. Whatever is wrong with it costs time, never a result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpukit/jit/image.h"

namespace gpukit::jit {

struct CacheStats {
  std::string folder;  // empty: no cache folder is known
  bool enabled = false;
  std::string reason;  // why it is off
  int64_t entries = 0, bytes = 0, max_bytes = 0;
  int64_t hits = 0, misses = 0, writes = 0;  // of this process
};

/// nullopt when there is no good entry: missing, cut short, changed, of another owner, a link, or the cache is off.
std::optional<Image> cache_read(const Key& key);
/// Stores and, past the size limit, removes what was used least recently. Failure turns the cache off for this process
/// with one log line.
void cache_write(const Key& key, const Image& image);

CacheStats cache_stats();
/// Removes every entry; gives their number.
int64_t cache_clear();

/// For tests: forget the folder and the counters, and read the environment again.
void cache_reset();

}  // namespace gpukit::jit
