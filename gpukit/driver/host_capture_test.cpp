// The host table follows the CUDA driver's rules for capture and graphs.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/host_fixture.h"

namespace gpukit::driver {
namespace {

class HostCapture : public HostTableTest {};

TEST_F(HostCapture, CaptureRecordsAndGraphReplays) {
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

TEST_F(HostCapture, SecondStreamJoinsByEvent) {
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

TEST_F(HostCapture, UnjoinedWorkIsAnError) {
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

TEST_F(HostCapture, WaitingInACaptureInvalidatesIt) {
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

TEST_F(HostCapture, RelaxedThreadMayAllocateWhileCapturing) {
  api.begin_capture(stream);
  int mode = api.relax_capture();
  Address address = api.allocate(16);
  EXPECT_EQ(api.release(address), 0);
  api.restore_capture(mode);
  EXPECT_CODE(CUDA_SUCCESS, end(stream));
}

TEST_F(HostCapture, CaptureBelongsToItsThread) {
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

TEST_F(HostCapture, CaptureStateErrors) {
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

TEST_F(HostCapture, TwoCapturesDoNotMerge) {
  api.begin_capture(stream);
  api.begin_capture(second);
  api.record_event(event, stream);
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE, table.cuStreamWaitEvent(second, event, 0));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(stream));
  EXPECT_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end(second));
}

TEST_F(HostCapture, DestroyingACapturingStreamEndsItsCapture) {
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
