// SM groups and green contexts on the host table.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/driver/objects.h"
#include "tests/support/host_fixture.h"

namespace gpukit::driver {
namespace {

class HostGreen : public HostTableTest {
 protected:
  HostGreen() { set_host_sms(132); }
  ~HostGreen() override { set_host_sms(0); }
};

TEST_F(HostTableTest, HasNoGreenContextsUnlessAsked) {
  EXPECT_FALSE(api.has_green_contexts());
  EXPECT_THROW(api.split_sms(0), CudaError);
  set_host_sms(16);
  EXPECT_TRUE(api.has_green_contexts());
  EXPECT_FALSE(api.has_green_contexts(1));
  EXPECT_EQ(api.properties(0).sm_count, 16);
  set_host_sms(0);
  EXPECT_FALSE(api.has_green_contexts());
}

TEST_F(HostTableTest, DriverWithoutTheCallsHasNone) {
  CudaTable old = host_table();
  old.cuGreenCtxStreamCreate = nullptr;
  Api lacking(old, DeviceKind::cpu);
  set_host_sms(16);
  EXPECT_FALSE(lacking.has_green_contexts());
  EXPECT_THROW(lacking.split_sms(0), CudaError);
  EXPECT_THROW(lacking.create_green_context(std::vector<SmGroup>(1)), CudaError);
  set_host_sms(0);
}

TEST_F(HostGreen, SplitsIntoEqualGroups) {
  SmGroups fine = api.split_sms(0);
  ASSERT_EQ(fine.groups.size(), 16u);
  for (const SmGroup& group : fine.groups) EXPECT_EQ(group.sm_count, 8);
  EXPECT_EQ(fine.remainder.sm_count, 4);
  SmGroups coarse = api.split_sms(0, 33);  // rounded up to the grain
  ASSERT_EQ(coarse.groups.size(), 3u);
  EXPECT_EQ(coarse.groups[0].sm_count, 40);
  EXPECT_EQ(coarse.remainder.sm_count, 12);
  EXPECT_THROW(api.split_sms(0, 133), CudaError);
  EXPECT_THROW(api.split_sms(0, -1), ArgumentError);
  EXPECT_THROW(api.split_sms(7), CudaError);
  set_host_sms(16);
  EXPECT_EQ(api.split_sms(0).remainder.sm_count, 0);
}

TEST_F(HostGreen, StreamsRememberTheirContext) {
  Context device(api, 0);
  SmSplit split(device);
  EXPECT_EQ(split.num_groups(), 16);
  EXPECT_EQ(split.sms_per_group(), 8);
  EXPECT_EQ(split.remainder_sms(), 4);
  int few[] = {0, 1, 2, 3}, rest[] = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  auto small = std::make_shared<GreenContext>(split, few);
  auto large = std::make_shared<GreenContext>(split, rest, true);
  EXPECT_EQ(small->sm_count(), 32);
  EXPECT_EQ(large->sm_count(), 100);
  Stream on_small(device, 0, small), on_large(device, -1, large), plain(device, 0);
  EXPECT_EQ(host_stream_green(on_small.handle()), small->handle());
  EXPECT_EQ(host_stream_green(on_large.handle()), large->handle());
  EXPECT_EQ(host_stream_green(plain.handle()), nullptr);
  EXPECT_EQ(on_small.green(), small);
  EXPECT_EQ(plain.green(), nullptr);
  EXPECT_EQ(plain.control.load(), nullptr);
  std::set<int> all;
  for (const auto& green : {small, large}) {
    for (int sm : host_green_sms(green->handle())) EXPECT_TRUE(all.insert(sm).second) << sm;
  }
  EXPECT_EQ(all.size(), 132u);
  push(on_small.handle(), 1);
  Event done(device);
  done.record(on_small);
  on_large.wait(done);
  push(on_large.handle(), 2);
  on_large.synchronize();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  ContextHandle current = nullptr;
  table.cuCtxGetCurrent(&current);
  EXPECT_EQ(current, device.handle());  // a green context is never current
  GreenHandle handle = small->handle();
  small.reset();
  EXPECT_FALSE(host_green_sms(handle).empty());  // its stream keeps it
}

TEST_F(HostGreen, CapturesLikeAnyStream) {
  Context device(api, 0);
  SmSplit split(device);
  int groups[] = {2};
  Stream green(device, 0, std::make_shared<GreenContext>(split, groups));
  api.begin_capture(green.handle());
  push(green.handle(), 1);
  GraphHandle graph = api.end_capture(green.handle());
  GraphExecHandle exec = api.instantiate(graph);
  api.launch_graph(exec, stream);
  EXPECT_EQ(order, (std::vector<int>{1}));
  api.destroy_graph_exec(exec);
  api.destroy_graph(graph);
}

TEST_F(HostGreen, RefusesWhatTheDriverRefuses) {
  SmGroups split = api.split_sms(0), again = api.split_sms(0);
  EXPECT_THROW(api.create_green_context({}), ArgumentError);
  std::vector<SmGroup> twice{split.groups[0], split.groups[0]}, mixed{split.groups[0], again.groups[1]}, none(1);
  EXPECT_THROW(api.create_green_context(twice), CudaError);
  EXPECT_THROW(api.create_green_context(mixed), CudaError);
  EXPECT_THROW(api.create_green_context(none), CudaError);
  CUdevResource part;
  std::memcpy(&part, split.groups[0].resource, sizeof part);
  unsigned count = 0;
  EXPECT_CODE(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
              table.cuDevSmResourceSplitByCount(nullptr, &count, &part, nullptr, 0, 1));
  GreenHandle green = api.create_green_context(split.groups);
  StreamHandle left = api.create_green_stream(green, 0);
  push(left, 1);
  api.destroy_green_context(green);
  EXPECT_CODE(CUDA_ERROR_STREAM_DETACHED, table.cuStreamSynchronize(left));
  EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuGreenCtxDestroy(green));
  EXPECT_THROW(api.create_green_stream(green, 0), CudaError);
  EXPECT_CODE(CUDA_SUCCESS, table.cuStreamDestroy(left));
}

TEST_F(HostGreen, OwnersCheckTheirArguments) {
  set_host_device_count(2);
  Context device(api, 0), other(api, 1);
  SmSplit split(device);
  int twice[] = {3, 3}, far[] = {16}, first[] = {0};
  EXPECT_THROW(GreenContext(split, twice), ArgumentError);
  EXPECT_THROW(GreenContext(split, far), ArgumentError);
  EXPECT_THROW(GreenContext(split, {}), ArgumentError);
  auto green = std::make_shared<GreenContext>(split, first);
  EXPECT_THROW(Stream(other, 0, green), ArgumentError);
  EXPECT_EQ(GreenContext(split, {}, true).sm_count(), 4);
}

}  // namespace
}  // namespace gpukit::driver
