#include "gpukit/runtime/fault.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "gpukit/base/error.h"

namespace gpukit::runtime {
namespace {

TEST(FaultCode, EqualNamesHaveOneCodeAndOthersTheirOwn) {
  const std::string copy = "fault_test_first";  // another address
  const int32_t first = fault_code("fault_test_first");
  EXPECT_GE(first, 1);
  EXPECT_EQ(fault_code(copy.c_str()), first);
  const int32_t second = fault_code("fault_test_second");
  EXPECT_NE(second, first);
  EXPECT_STREQ(fault_name(first), "fault_test_first");
  EXPECT_STREQ(fault_name(second), "fault_test_second");
}

TEST(FaultCode, ThreadsAgree) {
  static const char* const kNames[] = {"fault_test_a", "fault_test_b", "fault_test_c", "fault_test_d"};
  constexpr int kThreads = 8;
  std::vector<std::vector<int32_t>> codes(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&codes, t] {
        for (int i = 0; i < 4; ++i) codes[static_cast<size_t>(t)].push_back(fault_code(kNames[(i + t) % 4]));
      });
  }
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(codes[static_cast<size_t>(t)][static_cast<size_t>(i)], fault_code(kNames[(i + t) % 4])) << t;
}

TEST(FaultCode, ANumberOfNoNameIsAnIndex) {
  for (int32_t code : {-1, 0, 255, 256, 100000}) EXPECT_STREQ(fault_name(code), "index") << code;
}

TEST(Fault, NamesTheOperationThatPassedItsName) {
  const Device cpu = device_from_name("cpu");
  note_fault(fault_word(cpu), fault_code("an_op_nobody_listed"), -9, 5);
  note_fault(fault_word(cpu), fault_code("a_later_one"), 1, 1);
  try {
    raise_fault(cpu);
    FAIL();
  } catch (const OutOfRangeError& error) {
    EXPECT_STREQ(error.what(), "an_op_nobody_listed: index -9 is out of range for an axis of size 5");
  }
  EXPECT_NO_THROW(raise_fault(cpu));
}

}  // namespace
}  // namespace gpukit::runtime
