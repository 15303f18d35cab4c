// Pages of the host table: one memory at two addresses, the driver's rules, limits, and what a fork leaves of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "gpukit/base/error.h"
#include "gpukit/driver/page_file.h"
#include "tests/support/host_fixture.h"

namespace gpukit::driver {
namespace {

constexpr size_t kPage = host::kPageBytes;

char* at(Address address) { return reinterpret_cast<char*>(address); }

#if defined(_WIN32)

TEST_F(HostTableTest, HasNoPages) {
  EXPECT_FALSE(api.properties(0).vmm);
  EXPECT_THROW(api.create_pages(kPage), CudaError);
}

#else

class HostPages : public HostTableTest {
 protected:
  ~HostPages() override { set_host_memory_limit(0); }

  Address mapped(PageHandle pages, size_t bytes = kPage) {
    Address range = api.reserve_range(bytes);
    api.map_pages(range, bytes, pages);
    api.allow_access(range, bytes);
    return range;
  }
  void drop(Address range, size_t bytes = kPage) {
    EXPECT_CODE(CUDA_SUCCESS, api.unmap_pages(range, bytes));
    EXPECT_CODE(CUDA_SUCCESS, api.free_range(range, bytes));
  }
};

TEST_F(HostPages, DeviceSaysSo) {
  EXPECT_TRUE(api.properties(0).vmm);
  EXPECT_EQ(api.page_granularity(), kPage);
}

TEST_F(HostPages, OneMemoryAtTwoAddresses) {
  PageHandle pages = api.create_pages(2 * kPage);
  Address a = mapped(pages, 2 * kPage), b = mapped(pages, 2 * kPage);
  EXPECT_NE(a, b);
  EXPECT_EQ(a % kPage, 0u);
  EXPECT_EQ(at(a)[12345], 0);
  at(a)[12345] = 7;
  at(b)[2 * kPage - 1] = 8;
  EXPECT_EQ(at(b)[12345], 7);
  EXPECT_EQ(at(a)[2 * kPage - 1], 8);
  Address part = mapped(pages, kPage);  // the first page alone
  EXPECT_EQ(at(part)[12345], 7);
  drop(part);
  drop(a, 2 * kPage);
  EXPECT_EQ(at(b)[12345], 7);
  EXPECT_EQ(api.release_pages(pages), 0);  // the mapping keeps the memory
  EXPECT_EQ(at(b)[12345], 7);
  drop(b, 2 * kPage);
}

TEST_F(HostPages, BytesStayWhileMappedNowhere) {
  PageHandle first = api.create_pages(kPage), second = api.create_pages(kPage);
  Address range = api.reserve_range(2 * kPage);
  for (PageHandle pages : {first, second}) {
    api.map_pages(range, kPage, pages);
    api.allow_access(range, kPage);
    std::memset(at(range), pages == first ? 1 : 2, kPage);
    EXPECT_EQ(api.unmap_pages(range, kPage), 0);
  }
  api.map_pages(range, kPage, second);  // the other way round, side by side, access in one call
  api.map_pages(range + kPage, kPage, first);
  api.allow_access(range, 2 * kPage);
  EXPECT_EQ(at(range)[kPage - 1], 2);
  EXPECT_EQ(at(range)[kPage], 1);
  EXPECT_EQ(api.unmap_pages(range, 2 * kPage), 0);
  EXPECT_EQ(api.free_range(range, 2 * kPage), 0);
  EXPECT_EQ(api.release_pages(first), 0);
  EXPECT_EQ(api.release_pages(second), 0);
}

TEST_F(HostPages, RefusesBadUse) {
  const CUmemAllocationProp properties{
      CU_MEM_ALLOCATION_TYPE_PINNED, 0, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, nullptr, 0, 0, 0, {}};
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemHandle handle = 0;
  CUdeviceptr range = 0;
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemCreate(&handle, 0, &properties, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemCreate(&handle, kPage + 4096, &properties, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemCreate(&handle, kPage, nullptr, 0));
  EXPECT_CODE(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemCreate(&handle, size_t{1} << 60, &properties, 0));
  CUmemAllocationProp elsewhere = properties;
  elsewhere.location.id = 5;
  EXPECT_CODE(CUDA_ERROR_INVALID_DEVICE, table.cuMemCreate(&handle, kPage, &elsewhere, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemAddressReserve(&range, 4096, 0, 0, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemAddressReserve(&range, kPage, 3, 0, 0));
  EXPECT_CODE(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAddressReserve(&range, size_t{1} << 62, 0, 0, 0));

  PageHandle pages = api.create_pages(2 * kPage), other = api.create_pages(kPage);
  range = api.reserve_range(4 * kPage);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range + 4096, kPage, 0, pages, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range, kPage, kPage, pages, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range, 3 * kPage, 0, pages, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range, kPage / 2, 0, pages, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range + 3 * kPage, 2 * kPage, 0, pages, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range, kPage, 0, 999999, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemSetAccess(range, kPage, &access, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(range, kPage));

  api.map_pages(range + kPage, 2 * kPage, pages);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range, 2 * kPage, 0, pages, 0));          // over the first half
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range + 2 * kPage, kPage, 0, other, 0));  // over the second
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(range + kPage, kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(range + 2 * kPage, kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(range, 3 * kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(range + kPage, 3 * kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(range + kPage, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemSetAccess(range + kPage, kPage, &access, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemSetAccess(range + kPage, 2 * kPage, &access, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemAddressFree(range, 4 * kPage));
  EXPECT_CODE(CUDA_SUCCESS, table.cuMemUnmap(range + kPage, 2 * kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(range + kPage, 2 * kPage));

  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemAddressFree(range, 2 * kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemAddressFree(range + kPage, kPage));
  EXPECT_CODE(CUDA_SUCCESS, table.cuMemAddressFree(range, 4 * kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemAddressFree(range, 4 * kPage));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(range, kPage, 0, pages, 0));
  EXPECT_CODE(CUDA_SUCCESS, api.release_pages(pages));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, api.release_pages(pages));
  EXPECT_CODE(CUDA_SUCCESS, api.release_pages(other));
}

TEST_F(HostPages, ReleasedHandleMapsNoMore) {
  PageHandle pages = api.create_pages(kPage);
  Address range = mapped(pages), second = api.reserve_range(kPage);
  EXPECT_EQ(api.release_pages(pages), 0);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(second, kPage, 0, pages, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, api.release_pages(pages));
  EXPECT_EQ(api.free_range(second, kPage), 0);
  drop(range);
}

// The system call reports what the program itself would be killed for.
bool readable(Address address) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  bool read = write(ends[1], at(address), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return read;
}

TEST_F(HostPages, OnlyWhatIsMappedAndAllowedCanBeTouched) {
  PageHandle pages = api.create_pages(kPage);
  Address range = api.reserve_range(kPage);
  EXPECT_FALSE(readable(range));
  api.map_pages(range, kPage, pages);
  EXPECT_FALSE(readable(range));
  api.allow_access(range, kPage);
  EXPECT_TRUE(readable(range));
  EXPECT_TRUE(readable(range + kPage - 1));
  EXPECT_EQ(api.unmap_pages(range, kPage), 0);
  EXPECT_FALSE(readable(range));
  api.map_pages(range, kPage, pages);
  EXPECT_FALSE(readable(range));  // a new mapping starts without access
  EXPECT_EQ(api.unmap_pages(range, kPage), 0);
  EXPECT_EQ(api.free_range(range, kPage), 0);
  EXPECT_EQ(api.release_pages(pages), 0);
}

TEST_F(HostPages, LimitCountsPagesAndAllocations) {
  set_host_memory_limit(4 * kPage);
  EXPECT_EQ(api.properties(0).total_memory, static_cast<int64_t>(4 * kPage));
  size_t free_before = 0, free_bytes = 0, total = 0;
  api.memory_info(&free_before, &total);
  EXPECT_EQ(total, 4 * kPage);
  PageHandle pages = api.create_pages(2 * kPage);
  Address plain = api.allocate(kPage);
  api.memory_info(&free_bytes, &total);
  EXPECT_EQ(free_before - free_bytes, 3 * kPage);
  try {
    api.create_pages(2 * kPage);
    FAIL();
  } catch (const CudaError& error) {
    EXPECT_EQ(error.code, kErrorOutOfMemory);
  }
  EXPECT_THROW(api.allocate(free_bytes + 1), CudaError);
  Address range = mapped(pages, 2 * kPage);
  api.release_pages(pages);
  EXPECT_THROW(api.create_pages(2 * kPage), CudaError);  // still mapped, so still there
  drop(range, 2 * kPage);
  EXPECT_EQ(api.release(plain), 0);
  api.memory_info(&free_bytes, &total);
  EXPECT_EQ(free_bytes, free_before);
  set_host_device_count(2);
  ContextHandle other = api.retain_primary(1);
  api.make_current(other);
  PageHandle there = api.create_pages(4 * kPage);  // each device has its own memory
  api.make_current(context);
  PageHandle here = api.create_pages(2 * kPage);
  api.release_pages(there);
  api.release_pages(here);
  api.release_primary(1);
}

TEST_F(HostPages, CaptureRefusesThem) {
  api.begin_capture(stream);
  EXPECT_THROW(api.create_pages(kPage), CudaError);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(stream));
  api.begin_capture(stream);
  int mode = api.relax_capture();
  PageHandle pages = api.create_pages(kPage);
  drop(mapped(pages));
  EXPECT_EQ(api.release_pages(pages), 0);
  api.restore_capture(mode);
  EXPECT_CODE(CUDA_SUCCESS, end(stream));
}

#if defined(__linux__)
size_t shared_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssShmem:") continue;
    size_t kib = 0;
    status >> kib;
    return kib;
  }
  return 0;
}

TEST_F(HostPages, RoomIsTakenWhenTouchedAndGivenBack) {
  constexpr size_t kBytes = 128 * kPage, kTouched = 16 * kPage;
  size_t before = shared_kib();
  PageHandle pages = api.create_pages(kBytes);
  Address range = mapped(pages, kBytes);
  EXPECT_LT(shared_kib(), before + 1024);
  std::memset(at(range), 1, kTouched);
  EXPECT_GE(shared_kib(), before + kTouched / 1024 - 1024);
  drop(range, kBytes);
  EXPECT_LT(shared_kib(), before + 1024);
  range = mapped(pages, kBytes);
  EXPECT_EQ(at(range)[kTouched - 1], 1);
  drop(range, kBytes);
  EXPECT_EQ(api.release_pages(pages), 0);
}
#endif

// Random calls against a model of which byte must be seen where.
TEST_F(HostPages, FollowsAModel) {
  constexpr int kSlots = 32, kHandles = 8, kSteps = 20000;
  Address range = api.reserve_range(kSlots * kPage);
  std::vector<PageHandle> handles(kHandles, 0);
  std::vector<char> value(kHandles, 0);
  std::vector<int> slot(kSlots, -1);
  std::mt19937_64 random(3);
  auto uses = [&](int handle) { return std::count(slot.begin(), slot.end(), handle); };
  for (int step = 0; step < kSteps; ++step) {
    int h = static_cast<int>(random() % kHandles), s = static_cast<int>(random() % kSlots);
    Address place = range + s * kPage;
    switch (random() % 4) {
      case 0:
        if (handles[h] == 0) {
          handles[h] = api.create_pages(kPage);
          value[h] = 0;
        } else if (uses(h) == 0) {
          ASSERT_EQ(api.release_pages(handles[h]), 0);
          handles[h] = 0;
        }
        break;
      case 1:
        if (handles[h] == 0 || slot[s] >= 0) {
          ASSERT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemMap(place, kPage, 0, handles[h], 0));
        } else {
          api.map_pages(place, kPage, handles[h]);
          api.allow_access(place, kPage);
          slot[s] = h;
        }
        break;
      case 2:
        ASSERT_EQ(slot[s] < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, api.unmap_pages(place, kPage));
        slot[s] = -1;
        break;
      case 3:
        if (slot[s] < 0) break;
        at(place)[kPage / 2] = value[slot[s]] = static_cast<char>(step);
        break;
    }
    if (slot[s] >= 0) {
      ASSERT_EQ(at(place)[kPage / 2], value[slot[s]]) << step;
    }
  }
  for (int s = 0; s < kSlots; ++s) {
    if (slot[s] >= 0) {
      EXPECT_EQ(api.unmap_pages(range + s * kPage, kPage), 0);
    }
  }
  EXPECT_EQ(api.free_range(range, kSlots * kPage), 0);
  for (PageHandle handle : handles) {
    if (handle != 0) {
      EXPECT_EQ(api.release_pages(handle), 0);
    }
  }
}

TEST_F(HostPages, ThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      api.make_current(context);
      for (int i = 0; i < 200; ++i) {
        PageHandle pages = api.create_pages(kPage);
        Address a = mapped(pages), b = mapped(pages);
        at(a)[100] = static_cast<char>(t + i);
        if (at(b)[100] != static_cast<char>(t + i)) ++wrong;
        drop(a);
        api.release_pages(pages);
        drop(b);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(HostPages, ForkedChildHasItsOwn) {
  PageHandle pages = api.create_pages(4 * kPage);
  Address a = mapped(pages, 4 * kPage), b = mapped(pages, 4 * kPage);
  at(a)[5] = 1;
  at(a)[3 * kPage] = 2;
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    bool right = read(go[0], &byte, 1) == 1;                  // the parent has changed its pages
    right = right && at(a)[5] == 1 && at(b)[3 * kPage] == 2;  // not seen here
    at(a)[5] = 3;                                             // not seen there
    right = right && at(b)[5] == 3 && at(b)[kPage] == 0;      // still one memory at two addresses
    Address c = mapped(pages, 4 * kPage);
    right = right && at(c)[5] == 3;
    PageHandle more = api.create_pages(kPage);
    at(mapped(more))[0] = 4;
    right = right && api.unmap_pages(a, 4 * kPage) == 0 && api.release_pages(pages) == 0;
    _exit(right ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  at(a)[5] = 9;
  EXPECT_EQ(write(go[1], "g", 1), 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(at(b)[5], 9);
  EXPECT_EQ(at(b)[3 * kPage], 2);
  close(go[0]);
  close(go[1]);
  drop(a, 4 * kPage);
  drop(b, 4 * kPage);
  EXPECT_EQ(api.release_pages(pages), 0);
}

#endif

}  // namespace
}  // namespace gpukit::driver
