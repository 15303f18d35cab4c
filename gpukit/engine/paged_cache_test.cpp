#include "gpukit/engine/paged_cache.h"

#include <gtest/gtest.h>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"

namespace gpukit::engine {
namespace {

PagedCache make(int64_t pages) {
  llm::TransformerConfig config;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.hidden_size = 32;
  return PagedCache(config, {.num_pages = pages, .page_size = 16, .max_sequences = 3, .max_tokens = 64}, Device());
}

std::vector<int32_t> table_of(const PagedCache& cache) {
  const Array& tables = cache.layers().front().block_tables;
  std::vector<int32_t> rows(static_cast<size_t>(tables.size()));
  to_host(rows.data(), tables);
  return rows;
}

TEST(PagedCache, HandsOutPagesAndTakesThemBack) {
  PagedCache cache = make(5);
  EXPECT_EQ(cache.layers().size(), 2u);
  EXPECT_EQ(cache.layers()[1].k.shape(), (Dims{5, 16, 2, 8}));
  EXPECT_TRUE(cache.reserve(0, 17));
  EXPECT_TRUE(cache.reserve(2, 33));
  EXPECT_EQ(cache.free_pages(), 0);
  EXPECT_TRUE(cache.reserve(0, 32));   // in the pages it has
  EXPECT_FALSE(cache.reserve(0, 33));  // and nothing changes
  EXPECT_EQ(cache.pages_of(0), 2);
  cache.upload();
  EXPECT_EQ(table_of(cache), (std::vector<int32_t>{0, 1, -1, -1, -1, -1, -1, -1, 2, 3, 4, -1}));
  PagedCache::Pages pages = cache.detach(2);
  EXPECT_EQ(cache.free_pages(), 0);
  cache.free(std::span(pages).last(1));
  pages.pop_back();
  cache.attach(1, pages);
  EXPECT_TRUE(cache.reserve(1, 48));
  cache.upload();
  EXPECT_EQ(table_of(cache), (std::vector<int32_t>{0, 1, -1, -1, 2, 3, 4, -1, -1, -1, -1, -1}));
  EXPECT_THROW(cache.reserve(1, 65), ArgumentError);
  EXPECT_THROW(make(0), ArgumentError);
}

TEST(PagedCache, APageIsFreeWhenTheLastLetsGo) {
  PagedCache cache = make(4);
  EXPECT_TRUE(cache.reserve(0, 40));
  const PagedCache::Pages shared{cache.pages(0)[0], cache.pages(0)[1]};
  cache.hold(shared);
  cache.attach(1, shared);
  EXPECT_TRUE(cache.reserve(1, 33));
  EXPECT_EQ(cache.pages_of(1), 3);
  EXPECT_EQ(cache.free_pages(), 0);
  EXPECT_EQ(cache.pages_beside(shared), 0);
  cache.free(cache.detach(0));
  EXPECT_EQ(cache.free_pages(), 1);
  EXPECT_EQ(cache.pages_beside({}), 1);
  cache.free(cache.detach(1));
  EXPECT_EQ(cache.free_pages(), 4);
  EXPECT_EQ(cache.pages_beside(shared), 2);
}

}  // namespace
}  // namespace gpukit::engine
