// Pages and green contexts of the real driver, through driver::Api alone.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/driver/cuda.h"
#include "gpukit/driver/objects.h"
#include "gpukit/driver/visibility.h"
#include "tests/support/testing.h"

namespace gpukit::driver {
namespace {

// Kept for good, as the runtime keeps its own.
Context& gpu() {
  static Context* context = [] {
    Api api(*cuda_table(), DeviceKind::cuda);
    api.init();
    return new Context(api, 0);
  }();
  context->make_current();
  return *context;
}

void to_device(const Api& api, Address to, const std::vector<int>& from, StreamHandle stream) {
  api.copy_async(nullptr, to, from.data(), 0, from.size() * sizeof(int), CopyKind::host_to_device, stream);
}

std::vector<int> to_host(const Api& api, Address from, size_t count, StreamHandle stream) {
  std::vector<int> values(count);
  api.copy_async(values.data(), 0, nullptr, from, count * sizeof(int), CopyKind::device_to_host, stream);
  api.synchronize_stream(stream);
  return values;
}

TEST(GpuPages, OneMemoryAtTwoAddresses) {
  GPUKIT_NEEDS_GPU();
  Context& context = gpu();
  const Api& api = context.api();
  if (!context.properties().vmm) {
    if (::gpukit::testing::gpu_is_required()) FAIL() << "the device has no virtual memory management";
    GTEST_SKIP() << "the device has no virtual memory management";
  }
  Stream stream(context, 0);
  const size_t page = api.page_granularity();
  EXPECT_EQ(page % (size_t{2} << 20), 0u);
  PageHandle pages = api.create_pages(page), other = api.create_pages(page);
  Address first = api.reserve_range(2 * page), second = api.reserve_range(page);
  api.map_pages(first, page, pages);
  api.map_pages(first + page, page, other);
  api.allow_access(first, 2 * page);
  api.map_pages(second, page, pages);
  api.allow_access(second, page);
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 1);
  to_device(api, first, values, stream.handle());
  EXPECT_EQ(to_host(api, second, 1000, stream.handle()), values);
  EXPECT_THROW(api.map_pages(second, page, other), CudaError);  // taken
  EXPECT_NE(api.unmap_pages(first + page / 2, page / 2), 0);    // a part of a mapping

  // The other way round in the same range: bytes stay with their pages.
  EXPECT_EQ(api.unmap_pages(first, page), 0);
  EXPECT_EQ(api.unmap_pages(first + page, page), 0);
  api.map_pages(first, page, other);
  api.map_pages(first + page, page, pages);
  api.allow_access(first, 2 * page);
  EXPECT_EQ(to_host(api, first + page, 1000, stream.handle()), values);
  EXPECT_EQ(api.release_pages(pages), 0);  // mapped, so still there
  EXPECT_EQ(to_host(api, second, 1000, stream.handle()), values);

  EXPECT_EQ(api.unmap_pages(first, 2 * page), 0);  // two whole mappings at once
  EXPECT_EQ(api.unmap_pages(second, page), 0);
  EXPECT_EQ(api.free_range(first, 2 * page), 0);
  EXPECT_EQ(api.free_range(second, page), 0);
  EXPECT_EQ(api.release_pages(other), 0);
}

TEST(GpuPages, RegistersHostMemory) {
  GPUKIT_NEEDS_GPU();
  Context& context = gpu();
  const Api& api = context.api();
  std::vector<char> memory(1 << 20);
  EXPECT_FALSE(api.is_page_locked(memory.data()));
  api.register_host(memory.data(), memory.size());
  EXPECT_TRUE(api.is_page_locked(memory.data()));
  EXPECT_THROW(api.register_host(memory.data(), memory.size()), CudaError);
  EXPECT_EQ(api.unregister_host(memory.data()), 0);
  EXPECT_EQ(api.unregister_host(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST(GpuGreen, TwoContextsShareTheDevice) {
  GPUKIT_NEEDS_GPU();
  Context& context = gpu();
  const Api& api = context.api();
  if (!api.has_green_contexts()) {
    if (::gpukit::testing::gpu_is_required()) FAIL() << "green contexts need a driver of CUDA 12.5";
    GTEST_SKIP() << "green contexts need a driver of CUDA 12.5";
  }
  SmSplit split(context);
  ASSERT_GE(split.num_groups(), 2);
  EXPECT_EQ(split.num_groups() * split.sms_per_group() + split.remainder_sms(), context.properties().sm_count);
  std::vector<int> rest(split.num_groups() - 1);
  std::iota(rest.begin(), rest.end(), 1);
  auto small = std::make_shared<GreenContext>(split, std::array{0});
  auto large = std::make_shared<GreenContext>(split, rest, true);
  EXPECT_EQ(small->sm_count() + large->sm_count(), context.properties().sm_count);
  Stream first(context, 0, small), second(context, -1, large);

  Address memory = api.allocate(4000);
  api.fill_async(memory, 4, 7, 1000, first.handle());
  Event filled(context);
  filled.record(first);
  second.wait(filled);
  EXPECT_EQ(to_host(api, memory, 1000, second.handle()), std::vector<int>(1000, 7));
  first.synchronize();
  EXPECT_TRUE(first.query());
  ContextHandle current = nullptr;
  api.check(api.table().cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  EXPECT_EQ(current, context.handle());
  EXPECT_EQ(api.release(memory), 0);
  EXPECT_THROW(api.create_green_context(std::vector<SmGroup>(1)), CudaError);
}

TEST(GpuVisibility, SaysWhatItIs) {
  GPUKIT_NEEDS_GPU();
  const DeviceProperties& properties = gpu().properties();
  Visibility v = read_visibility(properties, 0);
  EXPECT_EQ(v.mig, properties.name.find(" MIG ") != std::string::npos) << properties.name;
}

}  // namespace
}  // namespace gpukit::driver
