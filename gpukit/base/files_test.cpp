#include "gpukit/base/files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#ifndef _WIN32
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace gpukit::files {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (std::filesystem::temp_directory_path() /
             ("gpukit-files-" + std::to_string(process_id()) + "-" + std::to_string(monotonic_ns())))
                .string();
    make_folder(root_);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  std::string in(std::string_view name) const { return join(root_, name); }
  std::string root_;
};

TEST_F(Files, WriteReadMap) {
  write_file(in("a"), "hello");
  EXPECT_EQ(read_file(in("a")), "hello");
  write_file(in("a"), "");
  const Mapping empty = Mapping::open(in("a"));
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(empty.data(), nullptr);
  write_file(in("a"), std::string(100000, 'x'));
  Mapping first = Mapping::open(in("a"));
  Mapping second = std::move(first);
  EXPECT_EQ(second.text(), std::string(100000, 'x'));
  EXPECT_EQ(first.size(), 0u);
  EXPECT_THROW(read_file(in("missing")), FileError);
  EXPECT_THROW(Mapping::open(root_), FileError);
  EXPECT_THROW(write_file(join(in("missing"), "b"), "x"), FileError);
  ASSERT_EQ(list_folder(root_).size(), 1u) << "no temporary file stays";
}

TEST_F(Files, AFileThatIsCutWhileItIsReadIsRefused) {
  constexpr uintmax_t kBytes = 16 << 20;
  write_file(in("a"), std::string(kBytes, 'x'));
  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    std::error_code ignored;
    while (!stop) {
      std::filesystem::resize_file(in("a"), 1, ignored);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::filesystem::resize_file(in("a"), kBytes, ignored);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  int refused = 0;
  for (int i = 0; i < 3000 && refused < 2; ++i) {
    try {
      const size_t size = read_file(in("a")).size();
      EXPECT_TRUE(size == 1 || size == kBytes) << size;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find("has become shorter"), std::string::npos) << error.what();
      ++refused;
    }
  }
  stop = true;
  cutter.join();
}

TEST_F(Files, ErrorNamesPathAndReason) {
  try {
    read_file(in("missing"));
    FAIL();
  } catch (const FileError& e) {
    EXPECT_EQ(e.path, in("missing"));
    EXPECT_EQ(e.error_number, ENOENT);
    EXPECT_NE(std::string(e.what()).find(in("missing")), std::string::npos);
  }
}

TEST_F(Files, PrivateFolder) {
  const PrivateFolder folder = PrivateFolder::open(join(in("one"), "two"));
  folder.write("entry", "bytes");
  EXPECT_EQ(folder.read("entry", 100), "bytes");
  EXPECT_EQ(folder.read("entry", 4), std::nullopt);
  EXPECT_EQ(folder.read("other", 100), std::nullopt);
  EXPECT_EQ(folder.read("../two/entry", 100), std::nullopt);
  EXPECT_THROW(folder.write("a/b", "x"), ArgumentError);
  EXPECT_THROW(folder.write("..", "x"), ArgumentError);
  ASSERT_EQ(folder.list().size(), 1u);
  const Entry entry = folder.list()[0];
  EXPECT_EQ(entry.name, "entry");
  EXPECT_EQ(entry.size, 5);
  EXPECT_TRUE(entry.regular && entry.owned);
  folder.touch("entry");
  EXPECT_GE(folder.list()[0].modified_ns, entry.modified_ns);
  EXPECT_TRUE(folder.remove("entry"));
  EXPECT_FALSE(folder.remove("entry"));
}

TEST_F(Files, PrivateFolderRefusesAFile) {
  write_file(in("file"), "x");
  EXPECT_THROW(PrivateFolder::open(in("file")), FileError);
  EXPECT_THROW(PrivateFolder::open(join(in("file"), "below")), FileError);
}

#ifndef _WIN32
TEST_F(Files, PrivateFolderIsForTheUserAlone) {
  const PrivateFolder folder = PrivateFolder::open(in("private"));
  struct stat info;
  ASSERT_EQ(stat(folder.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  folder.write("entry", "x");
  ASSERT_EQ(stat(join(folder.path(), "entry").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);

  ASSERT_EQ(chmod(join(folder.path(), "entry").c_str(), 0666), 0);
  EXPECT_EQ(folder.read("entry", 100), std::nullopt);
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  EXPECT_THROW(PrivateFolder::open(in("private")), FileError);
}

TEST_F(Files, LinksAreNotFollowed) {
  const PrivateFolder folder = PrivateFolder::open(in("private"));
  write_file(in("target"), "secret");
  ASSERT_EQ(symlink(in("target").c_str(), join(folder.path(), "entry").c_str()), 0);
  EXPECT_EQ(folder.read("entry", 100), std::nullopt);
  EXPECT_FALSE(folder.list()[0].regular);
  folder.write("entry", "new");  // replaces the link, not what it points at
  EXPECT_EQ(folder.read("entry", 100), "new");
  EXPECT_EQ(read_file(in("target")), "secret");

  ASSERT_EQ(symlink(in("private").c_str(), in("link").c_str()), 0);
  EXPECT_THROW(PrivateFolder::open(in("link")), FileError);
  EXPECT_THROW(PrivateFolder::open(in("link") + "/"), FileError);
}

TEST_F(Files, APipeDoesNotHang) {
  const PrivateFolder folder = PrivateFolder::open(in("private"));
  ASSERT_EQ(mkfifo(join(folder.path(), "entry").c_str(), 0600), 0);
  EXPECT_EQ(folder.read("entry", 100), std::nullopt);
}

TEST_F(Files, OthersFilesAreNotRead) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to someone else";
  const PrivateFolder folder = PrivateFolder::open(in("private"));
  folder.write("entry", "x");
  ASSERT_EQ(chown(join(folder.path(), "entry").c_str(), 12345, 12345), 0);
  EXPECT_EQ(folder.read("entry", 100), std::nullopt);
  ASSERT_EQ(chown(folder.path().c_str(), 12345, 12345), 0);
  EXPECT_THROW(PrivateFolder::open(in("private")), FileError);
}

TEST(Fork, GenerationCountsChildren) {
  const uint64_t before = fork_generation();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(fork_generation() == before + 1 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(fork_generation(), before);
}
#endif

TEST_F(Files, RacingWritersLeaveOneWholeFile) {
  const PrivateFolder folder = PrivateFolder::open(in("private"));
  std::vector<std::thread> writers;
  for (char c : {'a', 'b', 'c', 'd'})
    writers.emplace_back([&folder, c] {
      for (int i = 0; i < 50; ++i) folder.write("entry", std::string(10000, c));
    });
  for (std::thread& writer : writers) writer.join();
  const std::string bytes = folder.read("entry", 20000).value();
  EXPECT_EQ(bytes, std::string(10000, bytes[0]));
  EXPECT_EQ(folder.list().size(), 1u);
}

TEST(Process, Facts) {
  EXPECT_GE(available_cpus(), 1);
  EXPECT_GT(page_size(), 0u);
  EXPECT_GT(process_id(), 0);
  int64_t free_bytes = 0, total_bytes = 0;
  host_memory(&free_bytes, &total_bytes);
  EXPECT_GT(total_bytes, 0);
  EXPECT_LE(free_bytes, total_bytes);
  const int64_t start = monotonic_ns();
  real_clock().sleep_ns(2000000);
  EXPECT_GE(monotonic_ns() - start, 2000000);
}

}  // namespace
}  // namespace gpukit::files
