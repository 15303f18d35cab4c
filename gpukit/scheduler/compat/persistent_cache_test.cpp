#include "gpukit/scheduler/compat/persistent_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {
namespace {

namespace fs = std::filesystem;

class PersistentCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() /
            ("gpukit_persistent_" + std::to_string(files::process_id()) + "_" + std::to_string(files::monotonic_ns()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  PersistentCacheConfig config() const {
    PersistentCacheConfig value;
    value.cache_dir = root_.string();
    return value;
  }
  size_t num_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  fs::path only_entry() const {
    for (const auto& file : fs::directory_iterator(root_))
      if (file.path().string().ends_with(".ptx.json")) return file.path();
    return {};
  }
  const ArchFingerprint arch_{90, int64_t{141} << 30, 233472, 65536, 60 << 20, 12040};
  fs::path root_;
};

TEST_F(PersistentCacheTest, SurvivesTheProcess) {
  uint64_t key = 0;
  {
    PersistentCache cache(config(), arch_);
    cache.initialize();
    key = cache.insert("source", "f", {"-O3"}, "ptx \"text\"\n\x01");
    EXPECT_EQ(key, PersistentCache::compute_key(PersistentCache::hash_source("source"), "f",
                                                PersistentCache::hash_options({"-O3"}), arch_.hash()));
  }
  EXPECT_EQ(num_files(), 2u);
  EXPECT_TRUE(fs::exists(root_ / "index.json"));
  EXPECT_EQ(only_entry().filename().string().size(), 16 + std::string(".ptx.json").size());
  EXPECT_EQ(fs::status(only_entry()).permissions() & (fs::perms::group_all | fs::perms::others_all), fs::perms::none);
  PersistentCache cache(config(), arch_);
  const auto entry = cache.get(key);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->ptx, "ptx \"text\"\n\x01");
  EXPECT_EQ(entry->name, "f");
  EXPECT_EQ(entry->source_hash, PersistentCache::hash_source("source"));
  EXPECT_EQ(entry->access_count, 1);
  EXPECT_EQ(cache.size(), 1);
  EXPECT_TRUE(cache.contains(key));
  EXPECT_DOUBLE_EQ(cache.stats().hit_rate(), 1.0);
  EXPECT_GT(cache.stats().total_size, 0);
}

TEST_F(PersistentCacheTest, BadEntriesAreMisses) {
  PersistentCache cache(config(), arch_);
  const std::string bad[] = {"", "{", "[]", "{\"format\":1}", "null"};
  for (const std::string& text : bad) {
    const uint64_t key = cache.insert("source", "f", {}, "ptx");
    std::ofstream(only_entry()) << text;
    EXPECT_FALSE(cache.get(key).has_value()) << text;
    EXPECT_FALSE(cache.contains(key));
  }
  const uint64_t key = cache.insert("source", "f", {}, "ptx ptx");
  std::string text = files::read_file(only_entry().string());
  text.replace(text.find("ptx ptx"), 3, "PTX");
  std::ofstream(only_entry()) << text;
  EXPECT_FALSE(cache.get(key).has_value());
  EXPECT_EQ(cache.stats().load_errors, 6);
  EXPECT_EQ(cache.stats().misses, 6);
  EXPECT_EQ(cache.size(), 0);

  // A file of another chip under this key.
  ArchFingerprint other = arch_;
  other.driver_version = 12080;
  PersistentCache elsewhere(config(), other);
  const uint64_t foreign = elsewhere.insert("source", "f", {}, "ptx");
  EXPECT_NE(foreign, key);
  EXPECT_FALSE(cache.get(foreign).has_value());
}

TEST_F(PersistentCacheTest, ABadIndexIsRebuilt) {
  uint64_t key = 0;
  {
    PersistentCache cache(config(), arch_);
    key = cache.insert("source", "f", {}, "ptx");
  }
  std::ofstream(root_ / "index.json") << "{\"format\": 1, \"entries\": [{\"key\": 3}]}";
  PersistentCache cache(config(), arch_);
  cache.initialize();
  EXPECT_EQ(cache.size(), 1);
  EXPECT_TRUE(cache.get(key).has_value());
  EXPECT_EQ(cache.stats().load_errors, 1);
}

TEST_F(PersistentCacheTest, HoldsToItsLimits) {
  PersistentCacheConfig small = config();
  small.max_entries = 2;
  PersistentCache cache(small, arch_);
  const uint64_t a = cache.insert("a", "f", {}, "ptx"), b = cache.insert("b", "f", {}, "ptx");
  EXPECT_TRUE(cache.get(a).has_value());
  cache.insert("c", "f", {}, "ptx");
  EXPECT_TRUE(cache.contains(a));
  EXPECT_FALSE(cache.contains(b));
  EXPECT_EQ(cache.stats().evictions, 1);
  EXPECT_EQ(num_files(), 3u);

  small.max_entries = 1;  // cleaned when opened
  PersistentCache smaller(small, arch_);
  smaller.initialize();
  EXPECT_EQ(smaller.size(), 1);

  small.max_size = 600;
  PersistentCache tiny(small, arch_);
  EXPECT_THROW(tiny.insert("d", "f", {}, std::string(1000, 'x')), ArgumentError);
}

TEST_F(PersistentCacheTest, EntriesExpire) {
  PersistentCacheConfig brief = config();
  brief.ttl_seconds = 1e-9;
  PersistentCache cache(brief, arch_);
  const uint64_t key = cache.insert("a", "f", {}, "ptx");
  EXPECT_EQ(cache.cleanup(), 1);
  EXPECT_FALSE(cache.contains(key));
  const uint64_t again = cache.insert("a", "f", {}, "ptx");
  EXPECT_FALSE(cache.get(again).has_value());
}

TEST_F(PersistentCacheTest, RemovesAndClears) {
  PersistentCache cache(config(), arch_);
  const uint64_t a = cache.insert("a", "f", {}, "ptx");
  cache.insert("b", "f", {}, "ptx");
  EXPECT_TRUE(cache.remove(a));
  EXPECT_FALSE(cache.remove(a));
  cache.clear();
  EXPECT_EQ(cache.size(), 0);
  EXPECT_EQ(num_files(), 1u);  // the index
}

TEST_F(PersistentCacheTest, SaysWhenTheFolderCannotBeUsed) {
  std::ofstream(root_) << "a file";
  PersistentCache cache(config(), arch_);
  EXPECT_THROW(cache.initialize(), FileError);
  EXPECT_THROW(cache.insert("a", "f", {}, "ptx"), FileError);
  PersistentCacheConfig wrong = config();
  wrong.max_size = 0;
  EXPECT_THROW(PersistentCache(wrong, arch_), ArgumentError);
}

TEST(ArchFingerprint, ComparesChipAndDriver) {
  const ArchFingerprint a{90, 1, 2, 3, 4, 12040}, b{90, 9, 9, 9, 9, 12040}, c{90, 1, 2, 3, 4, 12050};
  EXPECT_TRUE(a.is_compatible(b));
  EXPECT_FALSE(a.is_compatible(c));
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_EQ(a.hash(), ArchFingerprint(a).hash());
}

}  // namespace
}  // namespace gpukit::scheduler
