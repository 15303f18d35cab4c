// Pages of texts that have ended, for texts that begin alike: any number of them, as whole pages are shared.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "gpukit/engine/paged_cache.h"

namespace gpukit::engine {

/// Pages that hold the first tokens of a sequence.
struct Prefix {
  PagedCache::Pages pages;
  int64_t length = 0;  // tokens
  /// A longer beginning that `pages` of `tokens` share with `wanted`.
  void improve(std::span<const int32_t> tokens, const PagedCache& cache, const PagedCache::Pages& pages_of_tokens,
               std::span<const int32_t> wanted);
};

class PrefixStore {
 public:
  explicit PrefixStore(PagedCache& cache) : cache_(cache) {}

  /// Takes over the hold of `pages`, which hold `tokens`. Of two texts that begin alike the longer one stays.
  void keep(std::vector<int32_t> tokens, PagedCache::Pages pages);
  /// The longest beginning of `wanted` among what is kept, without a hold; its text is now the one used last.
  Prefix find(std::span<const int32_t> wanted);
  /// Lets go of the text used longest ago; false when there is none.
  bool drop_oldest();

 private:
  struct Text {
    std::vector<int32_t> tokens;
    PagedCache::Pages pages;
  };
  PagedCache& cache_;
  std::deque<Text> texts_;  // the one used longest ago first
};

}  // namespace gpukit::engine
