// A test with two streams and an event on the host table.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "gpukit/driver/api.h"
#include "gpukit/driver/host_table.h"

namespace gpukit::driver {

class HostTableTest : public ::testing::Test {
 protected:
  HostTableTest() {
    table.cuInit(0);
    context = api.retain_primary(0);
    api.make_current(context);
    stream = api.create_stream(0);
    second = api.create_stream(-1);
    event = api.create_event(true, false);
  }
  ~HostTableTest() override {
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
    api.launch_host(
        to, [](void* p) { static_cast<Entry*>(p)->append(); }, &values.back());
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

}  // namespace gpukit::driver
