#include "gpukit/engine/prefix_store.h"

#include <algorithm>

namespace gpukit::engine {

namespace {

bool begins_with(const std::vector<int32_t>& text, const std::vector<int32_t>& beginning) {
  return beginning.size() <= text.size() && std::equal(beginning.begin(), beginning.end(), text.begin());
}

}  // namespace

void Prefix::improve(std::span<const int32_t> tokens, const PagedCache& cache, const PagedCache::Pages& pages_of_tokens,
                     std::span<const int32_t> wanted) {
  const auto same = std::mismatch(tokens.begin(), tokens.end(), wanted.begin(), wanted.end()).first - tokens.begin();
  if (same <= length) return;
  length = same;
  pages.assign(pages_of_tokens.begin(), pages_of_tokens.begin() + cache.pages_for(same));
}

void PrefixStore::keep(std::vector<int32_t> tokens, PagedCache::Pages pages) {
  const auto whole = static_cast<size_t>(cache_.pages_for(static_cast<int64_t>(tokens.size())));
  cache_.free(std::span(pages).subspan(whole));
  pages.resize(whole);
  for (auto text = texts_.begin(); text != texts_.end();) {
    if (begins_with(text->tokens, tokens)) {
      cache_.free(pages);
      std::rotate(text, text + 1, texts_.end());
      return;
    }
    if (begins_with(tokens, text->tokens)) {
      cache_.free(text->pages);
      text = texts_.erase(text);
    } else {
      ++text;
    }
  }
  texts_.push_back({std::move(tokens), std::move(pages)});
}

Prefix PrefixStore::find(std::span<const int32_t> wanted) {
  Prefix best;
  auto used = texts_.end();
  for (auto text = texts_.begin(); text != texts_.end(); ++text) {
    const int64_t before = best.length;
    best.improve(text->tokens, cache_, text->pages, wanted);
    if (best.length > before) used = text;
  }
  if (used != texts_.end()) std::rotate(used, used + 1, texts_.end());
  return best;
}

bool PrefixStore::drop_oldest() {
  if (texts_.empty()) return false;
  cache_.free(texts_.front().pages);
  texts_.pop_front();
  return true;
}

}  // namespace gpukit::engine
