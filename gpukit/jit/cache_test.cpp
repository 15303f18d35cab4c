// The kept form of compiled kernels, the disk cache and the bundle: whatever is wrong with a file is a miss.
#include "gpukit/jit/cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/jit/bundle.h"
#include "gpukit/jit/compiler.h"

namespace gpukit::jit {
namespace {

namespace fs = std::filesystem;

Key key_named(std::string_view text) { return sha256(text); }

Image sample(const std::string& code = std::string("\x7f"
                                                   "ELF\0code",
                                                   9)) {
  Image image;
  image.names = {{"k<float>", "_Z1kIfEvPT_"}, {"j", "j"}};
  image.code = code;
  image.ptx = "ptx";
  image.log = "log";
  return image;
}

bool equal(const Image& a, const Image& b) {
  return a.names == b.names && a.code == b.code && a.ptx == b.ptx && a.log == b.log;
}

TEST(Image, RoundTrip) {
  const Key key = key_named("a");
  const auto back = decode(key, encode(key, sample()));
  ASSERT_TRUE(back);
  EXPECT_TRUE(equal(*back, sample()));
  EXPECT_EQ(back->lowered("k<float>"), "_Z1kIfEvPT_");
  EXPECT_EQ(back->lowered("other"), "");
}

TEST(Image, AnyChangeIsRefused) {
  const Key key = key_named("a");
  const std::string good = encode(key, sample());
  EXPECT_FALSE(decode(key_named("b"), good));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(decode(key, flipped)) << "byte " << i;
    EXPECT_FALSE(decode(key, good.substr(0, i))) << "first " << i;
  }
  EXPECT_FALSE(decode(key, good + "x"));
}

TEST(Image, HeadersOfCubinsAndPtx) {
  std::string cubin(64, '\0');
  cubin.replace(0, 4,
                "\x7f"
                "ELF");
  cubin[8] = 7;
  cubin[18] = static_cast<char>(190);
  cubin[48] = 0x5a;
  cubin[49] = 0x0d;
  EXPECT_EQ(read_cubin_header(cubin)->sm, 90);
  EXPECT_EQ(read_cubin_header(cubin)->abi_version, 7);
  cubin[8] = 8;
  cubin[48] = 2;
  cubin[49] = 0x78;
  EXPECT_EQ(read_cubin_header(cubin)->sm, 120);
  EXPECT_EQ(read_target(cubin), 120);
  cubin[18] = 62;
  EXPECT_FALSE(read_cubin_header(cubin));
  EXPECT_FALSE(read_cubin_header("short"));
  EXPECT_EQ(read_ptx_version("// x\n.version 8.8\n.target sm_80"), 88);
  EXPECT_EQ(read_ptx_version("none"), 0);
  EXPECT_EQ(read_target("// x\n.version 8.8\n.target sm_80"), 80);
  EXPECT_EQ(read_target(".version 8.8\n.target sm_100f, debug"), 100);
  EXPECT_EQ(read_target("none"), 0);
}

/// A cache in a folder of its own, with a clean environment around it.
class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gpukit_cache_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    use(root_ / "cache");
  }
  void TearDown() override {
    for (const char* name : {"PYGPUKIT_CACHE_DIR", "PYGPUKIT_CACHE_MAX_MB", "PYGPUKIT_CACHE"}) unsetenv(name);
    cache_reset();
    fs::remove_all(root_);
  }
  void use(const fs::path& folder) {
    setenv("PYGPUKIT_CACHE_DIR", folder.c_str(), 1);
    cache_reset();
  }
  fs::path file(const Key& key) const { return root_ / "cache" / (hex(key) + ".gpukit"); }
  static void put(const fs::path& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  fs::path root_;
};

TEST_F(CacheTest, WritesAndReads) {
  const Key key = key_named("a");
  EXPECT_FALSE(cache_read(key));
  cache_write(key, sample());
  const auto back = cache_read(key);
  ASSERT_TRUE(back);
  EXPECT_TRUE(equal(*back, sample()));
  const CacheStats stats = cache_stats();
  EXPECT_TRUE(stats.enabled);
  EXPECT_EQ(stats.entries, 1);
  EXPECT_EQ(stats.hits, 1);
  EXPECT_EQ(stats.misses, 1);
  EXPECT_EQ(stats.writes, 1);
  EXPECT_EQ(fs::status(root_ / "cache").permissions() & fs::perms::all, fs::perms::owner_all);
  EXPECT_EQ(cache_clear(), 1);
  EXPECT_FALSE(cache_read(key));
}

TEST_F(CacheTest, DamagedEntriesAreMissesAndAreReplaced) {
  const Key key = key_named("a"), other = key_named("b");
  cache_write(key, sample());
  const std::string good = encode(key, sample());
  std::string flipped = good;
  flipped[good.size() / 2] ^= 4;
  for (const std::string& bytes :
       {std::string(), good.substr(0, good.size() - 1), flipped, good + "x", encode(other, sample())}) {
    put(file(key), bytes);
    EXPECT_FALSE(cache_read(key));
    cache_write(key, sample());
    EXPECT_TRUE(cache_read(key));
  }
}

TEST_F(CacheTest, LinksAndRenamedEntriesAreNotFollowed) {
  const Key key = key_named("a"), other = key_named("b");
  cache_write(key, sample());
  fs::rename(file(key), root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", file(key));
  EXPECT_FALSE(cache_read(key));
  cache_write(key, sample());
  EXPECT_TRUE(cache_read(key));
  EXPECT_FALSE(fs::is_symlink(file(key)));
  fs::rename(file(key), file(other));
  EXPECT_FALSE(cache_read(other));
  EXPECT_FALSE(cache_read(key));
}

TEST_F(CacheTest, AFolderThatIsAFileOrALinkTurnsTheCacheOff) {
  put(root_ / "plain", "x");
  fs::create_directory(root_ / "real");
  fs::create_directory_symlink(root_ / "real", root_ / "link");
  for (const char* name : {"plain", "link", "plain/below"}) {
    use(root_ / name);
    cache_write(key_named("a"), sample());
    EXPECT_FALSE(cache_read(key_named("a"))) << name;
    EXPECT_FALSE(cache_stats().enabled) << name;
    EXPECT_NE(cache_stats().reason, "") << name;
  }
}

TEST_F(CacheTest, AFolderOthersCanWriteTurnsTheCacheOff) {
  fs::create_directory(root_ / "open");
  fs::permissions(root_ / "open", fs::perms::all);
  use(root_ / "open");
  cache_write(key_named("a"), sample());
  EXPECT_FALSE(cache_stats().enabled);
}

TEST_F(CacheTest, AFolderUnderAnEntrysNameIsAMiss) {
  const Key key = key_named("a");
  cache_write(key_named("b"), sample());
  fs::create_directory(file(key));
  EXPECT_FALSE(cache_read(key));
  cache_write(key, sample());
  EXPECT_FALSE(cache_read(key));
}

TEST_F(CacheTest, OffByEnvironment) {
  setenv("PYGPUKIT_CACHE", "off", 1);
  cache_reset();
  cache_write(key_named("a"), sample());
  EXPECT_FALSE(cache_read(key_named("a")));
  EXPECT_FALSE(fs::exists(root_ / "cache"));
}

TEST_F(CacheTest, TheOldestEntriesGoFirst) {
  setenv("PYGPUKIT_CACHE_MAX_MB", "1", 1);
  cache_reset();
  const Image large = sample(std::string(400 << 10, 'x'));
  const Key a = key_named("a"), b = key_named("b"), c = key_named("c");
  cache_write(a, large);
  cache_write(b, large);
  fs::last_write_time(file(a), fs::file_time_type::clock::now() - std::chrono::hours(1));
  fs::last_write_time(file(b), fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(cache_read(b));  // used now: `a` is the older one
  cache_write(c, large);
  EXPECT_FALSE(fs::exists(file(a)));
  EXPECT_TRUE(cache_read(b));
  EXPECT_TRUE(cache_read(c));
}

TEST_F(CacheTest, ManyThreadsOneFolder) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong] {
      for (int i = 0; i < 50; ++i) {
        const std::string code = "code " + std::to_string(i % 5);
        cache_write(key_named(code), sample(code));
        const auto back = cache_read(key_named(code));
        if (!back || back->code != code) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Key, EveryFieldCounts) {
  const EmbeddedFile file{"a.cuh", "int x;", 6}, renamed{"b.cuh", "int x;", 6}, changed{"a.cuh", "int y;", 6};
  CompileRequest base;
  base.name = "k";
  base.source = "source";
  base.files = {&file};
  base.arch = "sm_80";
  base.options = {"-a", "-b"};
  base.expressions = {"k<float>"};
  const Key key = key_of(base, {12, 9});
  auto differs = [&](auto&& change, CompilerVersion version = {12, 9}) {
    CompileRequest request = base;
    change(request);
    return key_of(request, version) != key;
  };
  EXPECT_FALSE(differs([](CompileRequest& r) { r.name = "message only"; }));
  EXPECT_TRUE(differs([](CompileRequest&) {}, {12, 8}));
  EXPECT_TRUE(differs([](CompileRequest&) {}, {1, 29}));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.arch = "sm_90"; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.options = {"-b", "-a"}; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.options = {"-a-b"}; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.options = {"-a", "-b", ""}; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.options = {"-a"}, r.expressions = {"-b", "k<float>"}; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.expressions = {"k<double>"}; }));
  EXPECT_TRUE(differs([](CompileRequest& r) { r.source = "sourc"; }));
  EXPECT_TRUE(differs([&](CompileRequest& r) { r.files = {&renamed}; }));
  EXPECT_TRUE(differs([&](CompileRequest& r) { r.files = {&changed}; }));
  EXPECT_TRUE(differs([&](CompileRequest& r) { r.files = {}; }));
}

class BundleTest : public CacheTest {
 protected:
  std::string write(bool alone = false) {
    const std::string path = (root_ / "kernels.bundle").string();
    std::vector<BundleEntry> entries;
    for (int i = 0; i < 20; ++i) {
      const Key key = key_named(std::to_string(i));
      entries.push_back({key, std::to_string(i % 3), encode(key, sample("code " + std::to_string(i))), alone});
    }
    write_bundle(path, {12, 9}, {"sm_80", "compute_80"}, entries);
    return path;
  }
  static std::string read(const std::string& path) { return files::read_file(path); }
};

TEST_F(BundleTest, FindsEveryEntryByKey) {
  const auto bundle = Bundle::open(write());
  EXPECT_EQ(bundle->size(), 20u);
  EXPECT_EQ(bundle->compiler().minor, 9);
  EXPECT_EQ(bundle->archs(), (std::vector<std::string>{"sm_80", "compute_80"}));
  for (int i = 0; i < 20; ++i) {
    const auto image = bundle->find(key_named(std::to_string(i)));
    ASSERT_TRUE(image);
    EXPECT_EQ(image->code, "code " + std::to_string(i));
  }
  EXPECT_FALSE(bundle->find(key_named("20")));
}

TEST_F(BundleTest, EmptyBundle) {
  const std::string path = (root_ / "empty").string();
  write_bundle(path, {12, 9}, {}, {});
  EXPECT_FALSE(Bundle::open(path)->find(key_named("0")));
}

TEST_F(BundleTest, EntriesAloneDoNotShareABlock) {
  const std::string path = write(true);
  const std::string good = read(path);
  for (int i = 0; i < 20; ++i) {
    const auto image = Bundle::open(path)->find(key_named(std::to_string(i)));
    ASSERT_TRUE(image);
    EXPECT_EQ(image->code, "code " + std::to_string(i));
  }
  EXPECT_NE(good.find("code 7"), std::string::npos);  // and are not packed
  EXPECT_EQ(read(write()).find("code 7"), std::string::npos);
  put(path, good);
  put(path, good.substr(0, good.size() - 10));
  const auto cut = Bundle::open(path);
  int found = 0;
  for (int i = 0; i < 20; ++i) found += cut->find(key_named(std::to_string(i))) ? 1 : 0;
  EXPECT_EQ(found, 19);  // the last block held one entry
}

TEST_F(BundleTest, DamageIsRefusedOrAMiss) {
  const std::string path = write();
  const std::string good = read(path);
  for (size_t length : {size_t{0}, size_t{7}, size_t{30}, size_t{200}}) {
    put(path, good.substr(0, length));
    EXPECT_THROW(Bundle::open(path), Error) << length;
  }
  for (size_t at : {size_t{0}, size_t{9}, size_t{20}, size_t{100}, size_t{1000}}) {
    std::string bad = good;
    bad[at] ^= 1;
    put(path, bad);
    EXPECT_THROW(Bundle::open(path), Error) << at;
  }
  put(path, good.substr(0, good.size() - 10));
  auto cut = Bundle::open(path);
  int found = 0;
  for (int i = 0; i < 20; ++i) found += cut->find(key_named(std::to_string(i))) ? 1 : 0;
  EXPECT_EQ(found, 14);  // the last of three blocks is gone
  for (size_t at = good.size() - 300; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] ^= 0x10;
    put(path, bad);
    auto damaged = Bundle::open(path);
    for (int i = 0; i < 20; ++i) {
      const auto image = damaged->find(key_named(std::to_string(i)));
      EXPECT_TRUE(!image || image->code == "code " + std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace gpukit::jit
