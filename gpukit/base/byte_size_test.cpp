#include "gpukit/base/byte_size.h"

#include <gtest/gtest.h>

namespace gpukit {
namespace {

TEST(ByteSize, ReadsWhatPeopleWrite) {
  EXPECT_EQ(read_byte_size("0"), 0);
  EXPECT_EQ(read_byte_size("512"), 512);
  EXPECT_EQ(read_byte_size("512 B"), 512);
  EXPECT_EQ(read_byte_size("16MB"), 16 << 20);
  EXPECT_EQ(read_byte_size(" 16 mib "), 16 << 20);
  EXPECT_EQ(read_byte_size("1.5 GiB"), int64_t{3} << 29);
  EXPECT_EQ(read_byte_size("4KB"), 4096);
  EXPECT_EQ(read_byte_size("2TB"), int64_t{1} << 41);
}

TEST(ByteSize, RefusesTheRest) {
  for (const char* text : {"", "MB", "-1", "16 M", "16 bytes", "16 MBit", "nan", "inf", "1e300 TB", "1 PB", "16,5 MB"})
    EXPECT_EQ(read_byte_size(text), std::nullopt) << text;
}

}  // namespace
}  // namespace gpukit
