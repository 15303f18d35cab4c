#include "gpukit/ops/linalg/blocked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "gpukit/array/host.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/linalg/blocked_impl.h"
#include "gpukit/ops/linalg/linalg.h"
#include "tests/support/testing.h"

namespace gpukit::linalg {
namespace {

std::string bytes(const Array& a) {
  std::string out(static_cast<size_t>(a.nbytes()), '\0');
  to_host(out.data(), contiguous(a));
  return out;
}

TEST(Blocked, CutsAtThePowerOfTwoBelow) {
  EXPECT_EQ(cut_of(2), 1);
  EXPECT_EQ(cut_of(65), 64);
  EXPECT_EQ(cut_of(128), 64);
  EXPECT_EQ(cut_of(129), 128);
}

TEST(Blocked, GroupsAreNeverEmpty) {
  EXPECT_EQ(group_of(10, 1), 10);
  EXPECT_EQ(group_of(10, int64_t{1} << 40), 1);
  EXPECT_EQ(group_of(1000, int64_t{1} << 26), 4);
}

/// Chips whose shared memory holds panels of other widths, or none, give the same bits.
TEST(Blocked, TheRoomForPanelsChangesNoBit) {
  GPUKIT_NEEDS_GPU();
  constexpr int64_t kSize = 70;
  const auto values = testing::random_values(kSize * kSize, 3);
  for (DType dtype : {DType::float32, DType::complex64}) {
    const Array a = testing::make_array(values, {kSize, kSize}, dtype, testing::kCuda);
    const std::string inverse = bytes(inv(a)), q = bytes(qr(a).q);
    for (int64_t room : {int64_t{0}, int64_t{kSize * 9 * itemsize(dtype)}}) {
      cuda::set_panel_room(room);
      const std::string other = bytes(inv(a)), other_q = bytes(qr(a).q);
      cuda::set_panel_room(INT64_MAX);
      EXPECT_EQ(other, inverse) << name(dtype) << " " << room;
      EXPECT_EQ(other_q, q) << name(dtype) << " " << room;
    }
  }
}

}  // namespace
}  // namespace gpukit::linalg
