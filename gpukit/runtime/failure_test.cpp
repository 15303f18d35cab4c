// Every driver call is made to fail once: each failure is a clean exception, nothing is lost, and the next call works.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/transfer.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
using gpukit::testing::Live;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int kSize = 100;

void multiply_add(const Array& out, const Array& a, const Array& b, int32_t factor) {
  run_host("multiply_add", kCpu, {write(out), read(a), read(b)}, [factor](void* const* p) {
    auto* to = static_cast<int32_t*>(p[0]);
    auto *x = static_cast<const int32_t*>(p[1]), *y = static_cast<const int32_t*>(p[2]);
    for (int i = 0; i < kSize; ++i) to[i] = x[i] * factor + y[i];
  });
}

/// Allocates, copies, fills, computes on two streams, captures and replays a graph, reads back, and frees all of it.
std::vector<int32_t> scenario() {
  std::vector<int32_t> values(kSize);
  std::iota(values.begin(), values.end(), 1);
  Array a = from_host(values.data(), {kSize}, DType::int32, kCpu);
  Array b = Array::empty({kSize}, DType::int32, kCpu);
  fill(write(b), 4, 7, kSize);
  multiply_add(b, a, b, 2);  // 2 i + 7

  auto side = std::make_shared<driver::Stream>(open_device(kCpu).context, -1);
  driver::Event ready(side->context(), true), done(side->context(), true);
  ready.record(*current_stream(kCpu));
  side->wait(ready);
  {
    Session session = current_session().with_stream(side);
    SessionGuard guard(session);
    Array temporary = Array::empty({kSize}, DType::int32, kCpu);
    multiply_add(temporary, a, b, 1);  // 3 i + 7
    copy_device(write(b), read(temporary), kSize * sizeof(int32_t));
  }
  done.record(*side);
  current_stream(kCpu)->wait(done);
  done.synchronize();
  EXPECT_GE(driver::elapsed_ms(ready, done), 0.0f);

  {
    Array reused = Array::empty({kSize}, DType::int32, kCpu);  // the block of `temporary`, behind an event
    multiply_add(reused, a, b, 0);
    copy_device(write(b), read(reused), kSize * sizeof(int32_t));
  }

  Graph graph(kCpu);
  graph.begin_capture();
  try {
    Session session = current_session().with_stream(graph.stream());
    SessionGuard guard(session);
    multiply_add(a, a, b, 0);  // a = b
    multiply_add(b, a, b, 1);  // b doubles
    graph.end_capture();
  } catch (...) {
    graph.abandon();
    throw;
  }
  graph.replay();
  graph.replay();  // b = 4 (3 i + 7)
  graph.synchronize();
  std::vector<int32_t> result(kSize);
  to_host(result.data(), b);
  return result;
}

std::vector<int32_t> expected() {
  std::vector<int32_t> values(kSize);
  for (int i = 0; i < kSize; ++i) values[i] = 4 * (3 * (i + 1) + 7);
  return values;
}

/// What an open CPU device holds when nothing else is alive.
Live open_device_only() {
  Live live;
  live.contexts = live.pinned = live.streams = 1;
  return live;
}

/// The kind of object a failed releasing call leaves behind.
int Live::*released_by(const std::string& call) {
  static const std::map<std::string, int Live::*> table = {
      {"cuMemFree", &Live::memory},      {"cuMemFreeHost", &Live::pinned},  {"cuStreamDestroy", &Live::streams},
      {"cuEventDestroy", &Live::events}, {"cuGraphDestroy", &Live::graphs}, {"cuGraphExecDestroy", &Live::execs},
  };
  auto found = table.find(call);
  return found == table.end() ? nullptr : found->second;
}

class NthFailure : public ::testing::TestWithParam<int> {};

TEST_P(NthFailure, IsCleanAndLosesNothing) {
  const int code = GetParam();
  int failures = 0;
  for (int n = 1;; ++n) {
    FakeDriver fake;
    fake.fail_nth(n, code);
    bool threw = false;
    std::vector<int32_t> result;
    try {
      result = scenario();
    } catch (const Error& error) {
      threw = true;
      EXPECT_STRNE(error.what(), "");
    }
    const std::string failed = fake.failed_call();
    fake.stop_failing();
    SCOPED_TRACE("call " + std::to_string(n) + " " + failed);
    EXPECT_EQ(thread_capture(), nullptr);
    if (!threw) {
      EXPECT_EQ(result, expected());
    }
    if (failed.empty()) {
      EXPECT_FALSE(threw);
      break;
    }
    ++failures;

    ASSERT_NO_THROW(result = scenario()) << "the next call does not work";
    EXPECT_EQ(result, expected());
    open_device(kCpu).resource->trim();
    Live live = fake.live(), wanted = open_device_only();
    if (auto kind = released_by(failed); kind != nullptr && live.*kind == wanted.*kind + 1) wanted.*kind += 1;
    EXPECT_EQ(live, wanted) << "alive: " << str(live) << "wanted: " << str(wanted);
    ASSERT_LT(n, 2000);
    if (HasFailure()) break;
  }
  EXPECT_GT(failures, 50);  // the scenario really makes its calls
}

// Unknown, out of memory, invalid value: codes after which the context lives.
INSTANTIATE_TEST_SUITE_P(Codes, NthFailure, ::testing::Values(999, 2, 1));

TEST(Failure, StickyErrorMakesTheDeviceRefuseWork) {
  FakeDriver fake;
  EXPECT_EQ(scenario(), expected());
  fake.fail_nth_of("cuLaunchHostFunc", 1, 700);
  EXPECT_THROW(scenario(), CudaError);
  fake.clear_calls();
  Array array;
  try {
    scenario();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("multiply_add"), std::string::npos) << error.what();
  }
  EXPECT_EQ(fake.count("cuLaunchHostFunc"), 0);
  fake.reopen_devices();
  EXPECT_EQ(scenario(), expected());
}

TEST(Failure, OutOfMemoryTrimsThenTellsWhatWasAsked) {
  FakeDriver fake;
  { Array cached = Array::empty({1000}, DType::int32, kCpu); }
  fake.fail_nth_of("cuMemAlloc", 1, driver::kErrorOutOfMemory);
  Array other = Array::empty({500000}, DType::int32, kCpu);  // takes the pages of the cached block
  EXPECT_EQ(fake.failed_call(), "cuMemAlloc");
  EXPECT_EQ(open_device(kCpu).resource->stats().slabs, 0);
  { Array cached = Array::empty({1000}, DType::int32, kCpu); }
  driver::set_host_memory_limit(4 << 20);  // enough for the next one alone
  try {
    Array third = Array::empty({900000}, DType::int32, kCpu);
    ADD_FAILURE();
  } catch (const OutOfMemoryError& error) {
    EXPECT_GE(error.asked_bytes, 3600000);
    EXPECT_GE(error.in_use_bytes, 2000000);
  }
  driver::set_host_memory_limit(0);
  EXPECT_EQ(fake.count("cuMemFree"), 1);
  Array third = Array::empty({900000}, DType::int32, kCpu);
}

}  // namespace
}  // namespace gpukit::runtime
