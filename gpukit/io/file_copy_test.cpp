#include "gpukit/io/file_copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"

namespace gpukit::io {
namespace {

class FileCopy : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("gpukit-copy-" + std::to_string(files::process_id()))).string();
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 7 + i / 251);
    files::write_file(path_, content_);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  std::string path_;
  std::string content_ = std::string((size_t{9} << 20) + 5, '\0');  // more than two chunks of the ring
};

TEST_F(FileCopy, GivesTheBytes) {
  const files::ReadableFile file = files::ReadableFile::open(path_);
  std::vector<FilePart> parts;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4} << 20, static_cast<int64_t>(content_.size()) - 3})
    parts.push_back({Array::empty({bytes}, DType::uint8, Device()), &file, "x", 3});
  read_into(parts);
  for (const FilePart& part : parts) {
    std::string got(static_cast<size_t>(part.array.nbytes()), '\0');
    to_host(got.data(), part.array);
    ASSERT_TRUE(got == content_.substr(3, got.size()));
  }
}

TEST_F(FileCopy, AFileThatEndsIsTold) {
  const files::ReadableFile file = files::ReadableFile::open(path_);
  EXPECT_TRUE(file.unchanged());
  std::filesystem::resize_file(path_, 5 << 20);
  EXPECT_FALSE(file.unchanged());
  const FilePart part{Array::empty({9 << 20}, DType::uint8, Device()), &file, "tensor 'x' at byte 3", 3};
  try {
    read_into({&part, 1});
    FAIL();
  } catch (const FormatError& e) {
    EXPECT_EQ(e.what(), path_ + ": tensor 'x' at byte 3: the file has become shorter: it ends at byte 5242880");
  }
}

#ifdef __linux__
TEST(FileCopyFaults, AReadThatFailsNamesFileTensorAndOffset) {
  // A plain file whose first bytes cannot be read.
  const files::ReadableFile file = files::ReadableFile::open("/proc/self/mem");
  const FilePart part{Array::empty({100}, DType::uint8, Device()), &file, "tensor 'x' at byte 3", 3};
  try {
    read_into({&part, 1});
    FAIL();
  } catch (const FileError& e) {
    EXPECT_EQ(e.path, "/proc/self/mem");
    EXPECT_EQ(std::string(e.what()).find("cannot read tensor 'x' at byte 3 (100 bytes at 3) of /proc/self/mem: "), 0u)
        << e.what();
  }
}
#endif

}  // namespace
}  // namespace gpukit::io
