// The host table follows the CUDA driver's rules for devices, memory, streams and events.
#include "gpukit/driver/host_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "gpukit/base/error.h"
#include "gpukit/driver/objects.h"
#include "tests/support/host_fixture.h"

namespace gpukit::driver {
namespace {

class HostTable : public HostTableTest {};

TEST_F(HostTable, EveryEntryIsFilled) {
#define GPUKIT_TEST_FILLED(name, version, symbol, parameters) EXPECT_NE(table.name, nullptr) << #name;
  GPUKIT_CUDA_FUNCTIONS(GPUKIT_TEST_FILLED)
  GPUKIT_CUDA_OPTIONAL_FUNCTIONS(GPUKIT_TEST_FILLED)
#undef GPUKIT_TEST_FILLED
}

TEST(DriverCodes, StickyOnesAreThoseThatKillTheContext) {
  for (int code : {700, 702, 710, 714, 715, 716, 717, 718, 719, 721}) EXPECT_TRUE(is_sticky(code)) << code;
  for (int code : {0, 1, 2, 100, 400, 600, 701, 801, 900, 904, 999}) EXPECT_FALSE(is_sticky(code)) << code;
}

TEST_F(HostTable, UnknownCodeStillHasAName) {
  EXPECT_EQ(api.error_name(CUDA_ERROR_INVALID_VALUE), "CUDA_ERROR_INVALID_VALUE");
  EXPECT_EQ(api.error_name(12345), "CUDA_ERROR_12345");
}

TEST_F(HostTable, PropertiesNameTheSimulation) {
  DeviceProperties p = api.properties(0);
  EXPECT_EQ(p.name, "CPU Simulation");
  EXPECT_EQ(p.sm_major, 0);
  EXPECT_EQ(p.sm_minor, 0);
  EXPECT_EQ(p.uuid, "");
  EXPECT_EQ(p.warp_size, 32);
  EXPECT_GE(p.sm_count, 1);
  size_t free_bytes = 0, total_bytes = 0;
  api.memory_info(&free_bytes, &total_bytes);
  EXPECT_EQ(total_bytes, static_cast<size_t>(p.total_memory));
  EXPECT_GT(free_bytes, 0u);
  EXPECT_LE(free_bytes, total_bytes);
}

TEST_F(HostTable, MemoryIsAlignedAndCounted) {
  Address a = api.allocate(1), b = api.allocate(1000);
  EXPECT_EQ(a % 256, 0u);
  EXPECT_EQ(b % 256, 0u);
  EXPECT_EQ(api.release(a), 0);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, api.release(a));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, api.release(b + 256));
  EXPECT_EQ(api.release(b), 0);
  EXPECT_EQ(api.release(0), 0);
  CUdeviceptr address = 0;
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemAlloc(&address, 0));
  EXPECT_CODE(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAlloc(&address, SIZE_MAX / 2));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemFreeHost(&address));
  void* pinned = api.allocate_pinned(10);
  EXPECT_TRUE(api.is_page_locked(pinned));
  EXPECT_TRUE(api.is_page_locked(static_cast<char*>(pinned) + 9));
  EXPECT_FALSE(api.is_page_locked(static_cast<char*>(pinned) + 10));
  EXPECT_FALSE(api.is_page_locked(&address));
  EXPECT_CODE(CUDA_SUCCESS, table.cuMemFreeHost(pinned));
}

TEST_F(HostTable, RegisteredMemoryIsPageLocked) {
  std::vector<char> memory(3 * 4096);
  char* first = memory.data();
  EXPECT_FALSE(api.is_page_locked(first));
  api.register_host(first + 4096, 4096);
  EXPECT_FALSE(api.is_page_locked(first + 4095));
  EXPECT_TRUE(api.is_page_locked(first + 4096));
  EXPECT_TRUE(api.is_page_locked(first + 8191));
  EXPECT_FALSE(api.is_page_locked(first + 8192));
  for (size_t offset : {0, 4096, 8191}) {
    EXPECT_CODE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, table.cuMemHostRegister(first + offset, 4097, 0)) << offset;
  }
  api.register_host(first, 4096);
  api.register_host(first + 8192, 4096);
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemFreeHost(first));
  EXPECT_CODE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, api.unregister_host(first + 1));
  for (size_t offset : {0, 4096, 8192}) EXPECT_EQ(api.unregister_host(first + offset), 0);
  EXPECT_CODE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, api.unregister_host(first));
  EXPECT_FALSE(api.is_page_locked(first));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemHostRegister(nullptr, 4096, 0));
  void* pinned = api.allocate_pinned(4096);
  EXPECT_CODE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, api.unregister_host(pinned));
  EXPECT_THROW(api.register_host(pinned, 16), CudaError);
  api.release_pinned(pinned);
}

TEST_F(HostTable, CopiesAndFills) {
  std::vector<uint16_t> in(33), out(33);
  std::iota(in.begin(), in.end(), uint16_t{1});
  Address a = api.allocate(66), b = api.allocate(66);
  api.copy_async(nullptr, a, in.data(), 0, 66, CopyKind::host_to_device, stream);
  api.copy_async(nullptr, b, nullptr, a, 66, CopyKind::device_to_device, stream);
  api.copy_async(out.data(), 0, nullptr, b, 66, CopyKind::device_to_host, stream);
  EXPECT_EQ(in, out);
  api.fill_async(a, 2, 0x1234, 33, stream);
  api.copy_async(out.data(), 0, nullptr, a, 66, CopyKind::device_to_host, stream);
  EXPECT_EQ(out, std::vector<uint16_t>(33, 0x1234));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemsetD32Async(a + 2, 0, 1, stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuMemcpyHtoDAsync(0, in.data(), 4, stream));
  EXPECT_CODE(CUDA_SUCCESS, table.cuMemcpyHtoDAsync(0, nullptr, 0, stream));
  EXPECT_THROW(api.fill_async(a, 3, 0, 1, stream), ArgumentError);
  api.release(a);
  api.release(b);
}

TEST_F(HostTable, BadHandlesGiveErrors) {
  auto bad_stream = reinterpret_cast<StreamHandle>(&order);
  auto bad_event = reinterpret_cast<EventHandle>(&order);
  auto bad_graph = reinterpret_cast<GraphHandle>(&order);
  auto bad_exec = reinterpret_cast<GraphExecHandle>(&order);
  float ms = 0;
  size_t count = 0;
  GraphExecHandle exec = nullptr;
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuStreamSynchronize(bad_stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuStreamDestroy(bad_stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuStreamBeginCapture(bad_stream, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuEventRecord(bad_event, stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuEventQuery(bad_event));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuEventDestroy(bad_event));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuStreamWaitEvent(stream, bad_event, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, table.cuEventElapsedTime(&ms, bad_event, event));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuGraphInstantiateWithFlags(&exec, bad_graph, 0));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuGraphGetNodes(bad_graph, nullptr, &count));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuGraphLaunch(bad_exec, stream));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuGraphDestroy(bad_graph));
  EXPECT_CODE(CUDA_ERROR_INVALID_VALUE, table.cuGraphExecDestroy(bad_exec));
  EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuCtxSetCurrent(reinterpret_cast<ContextHandle>(&order)));
  try {
    api.synchronize_stream(bad_stream);
    FAIL();
  } catch (const CudaError& error) {
    EXPECT_EQ(error.code, CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(error.name, "CUDA_ERROR_INVALID_HANDLE");
    EXPECT_EQ(error.call, "cuStreamSynchronize");
  }
}

TEST_F(HostTable, KernelsAreNotSupported) {
  EXPECT_THROW(api.load_library("image"), CudaError);
  EXPECT_CODE(CUDA_ERROR_NOT_SUPPORTED, api.launch(nullptr, {}, stream, nullptr));
}

TEST_F(HostTable, NeedsACurrentContext) {
  std::thread([&] {
    CUdeviceptr address = 0;
    EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuMemAlloc(&address, 16));
    StreamHandle made = nullptr;
    EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuStreamCreateWithPriority(&made, 1, 0));
    EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuStreamSynchronize(nullptr));
    api.make_current(context);
    EXPECT_CODE(CUDA_SUCCESS, table.cuStreamSynchronize(nullptr));
  }).join();
}

TEST_F(HostTable, TwoDevicesAreApart) {
  set_host_device_count(2);
  EXPECT_EQ(api.device_count(), 2);
  std::optional<Context> closing(std::in_place, api, 1);
  Context first(api, 0), other(api, 1);
  EXPECT_NE(first.handle(), other.handle());
  EXPECT_EQ(other.device(), (Device{DeviceKind::cpu, 1}));
  for (const Context* one : {&first, &other}) {
    CUdevice device = -1;
    one->make_current();
    EXPECT_CODE(CUDA_SUCCESS, table.cuCtxGetDevice(&device));
    EXPECT_EQ(device, one->ordinal());
  }
  Stream on_first(first, 0), on_other(other, 0);
  EXPECT_NE(on_first.id(), on_other.id());
  Event of_first(first);
  EXPECT_THROW(of_first.record(on_other), CudaError);
  of_first.record(on_first);
  on_other.wait(of_first);  // across devices is allowed
  ContextHandle current = nullptr;
  table.cuCtxGetCurrent(&current);
  EXPECT_EQ(current, other.handle());
  set_host_device_count(1);
  EXPECT_THROW(Context(api, 1), CudaError);
  set_host_device_count(2);
  closing.reset();
  other.make_current();  // retained twice, released once
}

TEST_F(HostTable, ReleasedContextIsRefused) {
  set_host_device_count(2);
  ContextHandle other = api.retain_primary(1);
  api.make_current(other);
  api.release_primary(1);
  CUdeviceptr address = 0;
  EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuMemAlloc(&address, 16));
  api.make_current(context);
  EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuCtxSetCurrent(other));
  EXPECT_CODE(CUDA_ERROR_INVALID_CONTEXT, table.cuDevicePrimaryCtxRelease(1));
}

TEST_F(HostTable, EventTimes) {
  EventHandle stop = api.create_event(true, true), plain = api.create_event(false, false);
  EXPECT_TRUE(api.query_event(event));  // never recorded
  EXPECT_THROW(api.elapsed_ms(event, stop), CudaError);
  api.record_event(event, stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  api.record_event(stop, stream);
  api.synchronize_event(stop);
  float ms = api.elapsed_ms(event, stop);
  EXPECT_GE(ms, 4.5f);
  EXPECT_LT(ms, 5000.0f);
  api.record_event(plain, stream);
  EXPECT_THROW(api.elapsed_ms(event, plain), CudaError);
  api.destroy_event(stop);
  api.destroy_event(plain);
}

TEST_F(HostTable, OneStreamRunsOneThingAtATime) {
  struct Shared {
    std::atomic<int> inside{0}, most{0}, runs{0};
  } shared;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      api.make_current(context);
      for (int i = 0; i < 200; ++i) {
        api.launch_host(
            stream,
            [](void* p) {
              auto& s = *static_cast<Shared*>(p);
              int now = ++s.inside;
              s.most = std::max<int>(s.most, now);
              ++s.runs;
              --s.inside;
            },
            &shared);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(shared.most, 1);
  EXPECT_EQ(shared.runs, 800);
}

TEST_F(HostTable, QueryAndSynchronizeSeeWorkOfAnotherThread) {
  std::atomic<int> stage{0};
  std::thread worker([&] {
    api.make_current(context);
    api.launch_host(
        stream,
        [](void* p) {
          auto& s = *static_cast<std::atomic<int>*>(p);
          s = 1;
          while (s != 2) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          s = 3;
        },
        &stage);
  });
  while (stage != 1) std::this_thread::yield();
  EXPECT_FALSE(api.query_stream(stream));
  EXPECT_TRUE(api.query_stream(second));
  stage = 2;
  api.synchronize_context();
  EXPECT_EQ(stage, 3);
  worker.join();
}

TEST_F(HostTable, WorkCanStepAside) {
  static std::atomic<int> stage;
  stage = 0;
  std::thread other([&] {
    api.make_current(context);
    while (stage != 1) std::this_thread::yield();
    api.launch_host(
        stream, [](void*) { stage = 2; }, nullptr);
  });
  const auto aside = [] {
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  };
  static void (*check)() = aside;
  api.launch_host(
      stream,
      [](void*) {
        step_aside(check);
        // The stream is this work's again.
        if (stage == 2) stage = 3;
      },
      nullptr);
  EXPECT_EQ(stage, 3);
  EXPECT_TRUE(api.query_stream(stream));
  step_aside([] { stage = 4; });
  EXPECT_EQ(stage, 4);
  other.join();
}

#if !defined(_WIN32)
TEST_F(HostTable, ForkedChildUsesAStreamThatWasBusy) {
  std::atomic<int> stage{0};
  std::thread worker([&] {
    api.make_current(context);
    auto busy = [](void* p) {
      auto& s = *static_cast<std::atomic<int>*>(p);
      s = 1;
      while (s != 2) std::this_thread::yield();
    };
    api.launch_host(stream, busy, &stage);
  });
  while (stage != 1) std::this_thread::yield();
  pid_t child = fork();
  if (child == 0) {
    push(stream, 5);
    bool right = order == std::vector<int>{5} && table.cuCtxSynchronize() == CUDA_SUCCESS;
    _exit(right ? 0 : 1);
  }
  stage = 2;
  worker.join();
  ASSERT_GT(child, 0);
  int status = -1;
  // A child that waits for a lock nobody holds would never end.
  for (int i = 0; i < 1000 && waitpid(child, &status, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (status == -1) kill(child, SIGKILL);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace gpukit::driver
