#include "gpukit/scheduler/compat/kernel_cache.h"

#include <gtest/gtest.h>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {
namespace {

TEST(KernelCache, KeysTellApartWhatMatters) {
  const CompileOptions options;
  const uint64_t key = KernelCache::compute_key("source", "name", options);
  EXPECT_EQ(key, KernelCache::compute_key("source", "name", CompileOptions()));
  EXPECT_NE(key, KernelCache::compute_key("sourc", "ename", options));
  EXPECT_NE(key, KernelCache::compute_key("source", "name", options.flag("-O3")));
  EXPECT_NE(key, KernelCache::compute_key("source", "name", options.include("-O3")));
  EXPECT_NE(KernelCache::compute_key("s", "n", options.define("A", "1")),
            KernelCache::compute_key("s", "n", options.define("A1", "")));
  EXPECT_NE(KernelCache::hash_source("a"), KernelCache::hash_source("b"));
  EXPECT_TRUE(options.flags.empty());  // builders copy
}

TEST(KernelCache, FindsByKeyAndByName) {
  KernelCache cache;
  const CompileOptions a;
  CompileOptions b;
  b.compute_capability = "sm_90";
  const uint64_t key = cache.insert("source", "f", "ptx", a);
  EXPECT_EQ(key, KernelCache::compute_key("source", "f", a));
  EXPECT_EQ(cache.get(key)->ptx, "ptx");
  EXPECT_EQ(cache.get_by_name("f", a)->access_count, 2);
  EXPECT_FALSE(cache.get_by_name("f", b).has_value());
  EXPECT_FALSE(cache.get(1).has_value());
  EXPECT_DOUBLE_EQ(cache.stats().hit_rate(), 0.5);
  const uint64_t newer = cache.insert("source 2", "f", "ptx 2", a);
  EXPECT_EQ(cache.get_by_name("f", a)->key, newer);
  EXPECT_EQ(cache.kernel_names(), std::vector<std::string>{"f"});
  EXPECT_FALSE(cache.get(key)->is_loaded());
  EXPECT_TRUE(cache.set_handles(key, 11, 12));
  EXPECT_TRUE(cache.get(key)->is_loaded());
  EXPECT_EQ(cache.stats().loaded_count, 1);
  EXPECT_FALSE(cache.set_handles(1, 1, 1));
  EXPECT_TRUE(cache.remove(key));
  EXPECT_FALSE(cache.remove(key));
  EXPECT_EQ(cache.size(), 1);
  cache.clear();
  EXPECT_EQ(cache.size(), 0);
  EXPECT_EQ(cache.stats().ptx_size, 0);
}

TEST(KernelCache, DropsTheLeastRecentlyUsed) {
  KernelCache cache({.max_entries = 3});
  const CompileOptions options;
  const uint64_t a = cache.insert("a", "a", "1", options), b = cache.insert("b", "b", "1", options),
                 c = cache.insert("c", "c", "1", options);
  cache.get(a);
  cache.insert("d", "d", "1", options);
  EXPECT_TRUE(cache.contains(a));
  EXPECT_FALSE(cache.contains(b));
  EXPECT_TRUE(cache.contains(c));
  EXPECT_EQ(cache.stats().evictions, 1);
}

TEST(KernelCache, HoldsToItsBytes) {
  KernelCache cache({.max_ptx_size = 10});
  const CompileOptions options;
  const uint64_t a = cache.insert("a", "a", "123456", options);
  const uint64_t b = cache.insert("b", "b", "1234", options);
  EXPECT_TRUE(cache.contains(a));
  cache.insert("c", "c", "12345", options);
  EXPECT_FALSE(cache.contains(a));
  EXPECT_TRUE(cache.contains(b));
  EXPECT_EQ(cache.stats().ptx_size, 9);
  EXPECT_THROW(cache.insert("d", "d", "12345678901", options), ArgumentError);

  KernelCache fixed({.max_entries = 1, .enable_eviction = false});
  fixed.insert("a", "a", "1", options);
  fixed.insert("a", "a", "2", options);  // the same key
  EXPECT_THROW(fixed.insert("b", "b", "1", options), Error);
  EXPECT_THROW(KernelCache({.max_entries = 0}), ArgumentError);
}

TEST(KernelCache, EntriesExpire) {
  VirtualClock clock;
  KernelCache cache({.ttl_seconds = 10}, clock);
  const CompileOptions options;
  const uint64_t a = cache.insert("a", "a", "1", options);
  clock.advance_ns(6'000'000'000);
  const uint64_t b = cache.insert("b", "b", "1", options);
  EXPECT_TRUE(cache.get(a).has_value());
  clock.advance_ns(5'000'000'000);
  EXPECT_FALSE(cache.contains(a));
  EXPECT_FALSE(cache.get(a).has_value());
  EXPECT_EQ(cache.stats().ttl_evictions, 1);
  EXPECT_TRUE(cache.contains(b));
  clock.advance_ns(6'000'000'000);
  EXPECT_EQ(cache.clear_expired(), 1);
  EXPECT_EQ(cache.size(), 0);
}

}  // namespace
}  // namespace gpukit::scheduler
