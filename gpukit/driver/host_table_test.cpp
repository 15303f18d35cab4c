// The host table follows the CUDA driver's rules for memory, streams, events, capture and graphs.
#include "gpukit/driver/host_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <numeric>
#include <thread>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/driver/api.h"
#include "gpukit/driver/objects.h"

namespace gpukit::driver {
namespace {

class HostTable : public testing::Test {
 protected:
  HostTable() {
    table.cuInit(0);
    context = api.retain_primary(0);
    api.make_current(context);
    stream = api.create_stream(0);
    second = api.create_stream(-1);
    event = api.create_event(true, false);
  }
  ~HostTable() override {
    GraphHandle left = nullptr;
    for (StreamHandle s : {stream, second}) {
      if (api.capture_info(s).status != CaptureStatus::none) table.cuStreamEndCapture(s, &left);
    }
    if (left != nullptr) api.destroy_graph(left);
    api.destroy_event(event);
    api.destroy_stream(second);
    api.destroy_stream(stream);
    api.release_primary(0);
    set_host_device_count(1);
  }

  void push(StreamHandle to, int value) {
    values.push_back({&order, value});
    api.launch_host(to, [](void* p) { static_cast<Entry*>(p)->append(); }, &values.back());
  }

  CUresult end(StreamHandle of) {
    GraphHandle graph = nullptr;
    CUresult code = table.cuStreamEndCapture(of, &graph);
    if (graph != nullptr) api.destroy_graph(graph);
    return code;
  }

  struct Entry {
    std::vector<int>* order;
    int value;
    void append() { order->push_back(value); }
  };

  const CudaTable& table = host_table();
  Api api{host_table(), DeviceKind::cpu};
  ContextHandle context = nullptr;
  StreamHandle stream = nullptr, second = nullptr;
  EventHandle event = nullptr;
  std::vector<int> order;
  std::deque<Entry> values;
};

#define EXPECT_CODE(expected, call) EXPECT_EQ(static_cast<int>(expected), static_cast<int>(call))

TEST_F(HostTable, EveryEntryIsFilled) {
#define GPUKIT_TEST_FILLED(name, version, symbol, parameters) EXPECT_NE(table.name, nullptr) << #name;
  GPUKIT_CUDA_FUNCTIONS(GPUKIT_TEST_FILLED)
#undef GPUKIT_TEST_FILLED
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
  EXPECT_CODE(CUDA_SUCCESS, table.cuMemFreeHost(pinned));
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
  Context first(api, 0), other(api, 1);
  EXPECT_NE(first.handle(), other.handle());
  EXPECT_EQ(other.device(), (Device{DeviceKind::cpu, 1}));
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
  api.release_primary(1);
  api.make_current(first.handle());
  EXPECT_THROW(other.make_current(), CudaError);
  api.release_primary(0);
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

TEST_F(HostTable, CaptureRecordsAndGraphReplays) {
  api.begin_capture(stream);
  CaptureInfo info = api.capture_info(stream);
  EXPECT_EQ(info.status, CaptureStatus::active);
  EXPECT_NE(info.id, 0u);
  EXPECT_EQ(api.capture_info(second).status, CaptureStatus::none);
  push(stream, 1);
  push(second, 100);  // not captured: runs now
  push(stream, 2);
  EXPECT_EQ(order, std::vector<int>({100}));
  GraphHandle graph = api.end_capture(stream);
  EXPECT_EQ(api.graph_nodes(graph), 2u);
  GraphExecHandle exec = api.instantiate(graph);
  api.destroy_graph(graph);
  order.clear();
  api.launch_graph(exec, stream);
  api.launch_graph(exec, second);
  EXPECT_EQ(order, std::vector<int>({1, 2, 1, 2}));
  // A graph launched inside a capture is one node of the new graph.
  api.begin_capture(stream);
  api.launch_graph(exec, stream);
  push(stream, 3);
  GraphHandle outer = api.end_capture(stream);
  EXPECT_EQ(api.graph_nodes(outer), 2u);
  GraphExecHandle outer_exec = api.instantiate(outer);
  api.destroy_graph_exec(exec);
  order.clear();
  api.launch_graph(outer_exec, stream);
  EXPECT_EQ(order, std::vector<int>({1, 2, 3}));
  api.destroy_graph(outer);
  api.destroy_graph_exec(outer_exec);
}

TEST_F(HostTable, SecondStreamJoinsByEvent) {
  EventHandle back = api.create_event(false, false);
  api.begin_capture(stream);
  push(stream, 1);
  api.record_event(event, stream);
  api.wait_event(second, event);
  EXPECT_EQ(api.capture_info(second).id, api.capture_info(stream).id);
  push(second, 2);
  push(stream, 3);
  api.record_event(back, second);
  api.wait_event(stream, back);
  push(stream, 4);
  GraphHandle graph = api.end_capture(stream);
  EXPECT_EQ(api.capture_info(second).status, CaptureStatus::none);
  GraphExecHandle exec = api.instantiate(graph);
  auto nodes = host_graph_nodes(exec);
  ASSERT_EQ(nodes->size(), 4u);
  EXPECT_EQ((*nodes)[1].after, std::vector<int>({0}));
  EXPECT_EQ((*nodes)[2].after, std::vector<int>({0}));
  EXPECT_EQ((*nodes)[3].after, std::vector<int>({1, 2}));
  api.destroy_graph(graph);
  api.destroy_graph_exec(exec);
  api.destroy_event(back);
}

TEST_F(HostTable, UnjoinedWorkIsAnError) {
  api.begin_capture(stream);
  push(stream, 1);
  api.record_event(event, stream);
  api.wait_event(second, event);
  push(second, 2);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, end(stream));
  EXPECT_EQ(api.capture_info(stream).status, CaptureStatus::none);
  EXPECT_EQ(api.capture_info(second).status, CaptureStatus::none);
  push(second, 3);
  EXPECT_EQ(order, std::vector<int>({3}));
}

TEST_F(HostTable, WaitingInACaptureInvalidatesIt) {
  CUdeviceptr address = 0;
  void* pinned = nullptr;
  auto refused = [&](auto call, int expected) {
    api.begin_capture(stream);
    push(stream, 1);
    EXPECT_CODE(expected, call());
    EXPECT_EQ(api.capture_info(stream).status, CaptureStatus::invalidated);
    EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, table.cuMemsetD8Async(0, 0, 0, stream));
    EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(stream));
    EXPECT_EQ(api.capture_info(stream).status, CaptureStatus::none);
  };
  refused([&] { return table.cuStreamSynchronize(stream); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  refused([&] { return table.cuStreamQuery(stream); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  refused([&] { return table.cuCtxSynchronize(); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  refused([&] { return table.cuMemAlloc(&address, 16); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  refused([&] { return table.cuMemHostAlloc(&pinned, 16, 0); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  refused(
      [&] {
        api.record_event(event, stream);
        return table.cuEventSynchronize(event);
      },
      CUDA_ERROR_CAPTURED_EVENT);
  api.record_event(event, second);
  refused([&] { return table.cuStreamWaitEvent(stream, event, 0); }, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_TRUE(order.empty());
}

TEST_F(HostTable, RelaxedThreadMayAllocateWhileCapturing) {
  api.begin_capture(stream);
  int mode = api.relax_capture();
  Address address = api.allocate(16);
  EXPECT_EQ(api.release(address), 0);
  api.restore_capture(mode);
  EXPECT_CODE(CUDA_SUCCESS, end(stream));
}

TEST_F(HostTable, CaptureBelongsToItsThread) {
  api.begin_capture(stream);
  std::thread([&] {
    api.make_current(context);
    Address address = api.allocate(16);  // other threads are not bound
    EXPECT_EQ(api.release(address), 0);
    EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, end(stream));
  }).join();
  EXPECT_EQ(api.capture_info(stream).status, CaptureStatus::active);
  EXPECT_CODE(CUDA_SUCCESS, end(stream));
}

TEST_F(HostTable, CaptureStateErrors) {
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_STATE, end(stream));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, table.cuStreamBeginCapture(nullptr, 1));
  api.begin_capture(stream);
  EXPECT_CODE(CUDA_ERROR_ILLEGAL_STATE, table.cuStreamBeginCapture(stream, 1));
  api.record_event(event, stream);
  api.wait_event(second, event);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, end(second));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(stream));
  EXPECT_CODE(CUDA_ERROR_CAPTURED_EVENT, table.cuStreamWaitEvent(stream, event, 0));
}

TEST_F(HostTable, TwoCapturesDoNotMerge) {
  api.begin_capture(stream);
  api.begin_capture(second);
  api.record_event(event, stream);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE, table.cuStreamWaitEvent(second, event, 0));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(stream));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(second));
}

TEST_F(HostTable, DestroyingACapturingStreamEndsItsCapture) {
  StreamHandle origin = api.create_stream(0);
  api.begin_capture(origin);
  api.record_event(event, origin);
  api.wait_event(stream, event);
  api.destroy_stream(origin);
  EXPECT_EQ(api.capture_info(stream).status, CaptureStatus::none);
  Address address = api.allocate(16);
  EXPECT_EQ(api.release(address), 0);
}

}  // namespace
}  // namespace gpukit::driver
