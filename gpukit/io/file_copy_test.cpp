#include "gpukit/io/file_copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/runtime/transfer_engine.h"

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

TEST_F(FileCopy, BothWaysGiveTheBytes) {
  const files::ReadableFile file = files::ReadableFile::open(path_);
  for (const auto& way : {&read_in_place, &read_through_ring, &read_into}) {
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4} << 20, static_cast<int64_t>(content_.size()) - 3}) {
      const Array array = Array::empty({bytes}, DType::uint8, Device());
      way(array, file, "x", 3);
      std::string got(static_cast<size_t>(bytes), '\0');
      to_host(got.data(), array);
      ASSERT_TRUE(got == content_.substr(3, got.size()));
    }
  }
}

TEST_F(FileCopy, AFileThatEndsIsToldAndTheRingIsGivenBack) {
  const files::ReadableFile file = files::ReadableFile::open(path_);
  std::filesystem::resize_file(path_, 5 << 20);
  for (const auto& way : {&read_in_place, &read_through_ring}) {
    const Array array = Array::empty({9 << 20}, DType::uint8, Device());
    try {
      way(array, file, "tensor 'x' at byte 3", 3);
      FAIL();
    } catch (const FormatError& e) {
      EXPECT_EQ(e.what(), path_ + ": tensor 'x' at byte 3: the file has become shorter: it ends at byte 5242880");
    }
  }
  EXPECT_EQ(runtime::transfer_engine(Device()).ring().stats().held, 0u);
}

}  // namespace
}  // namespace gpukit::io
