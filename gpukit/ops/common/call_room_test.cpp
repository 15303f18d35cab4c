#include "gpukit/ops/common/call_room.h"

#include <gtest/gtest.h>

#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/transfer.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

class CallRoom : public testing::DeviceTest {};
GPUKIT_ON_DEVICES(CallRoom);

/// Captures `body` on the stream of a graph.
template <typename F>
void capture(runtime::Graph* graph, F body) {
  const runtime::Session session = runtime::Session().with_stream(graph->stream());
  const runtime::SessionGuard guard(session);
  graph->begin_capture();
  body();
  graph->end_capture();
}

TEST_P(CallRoom, EagerCallsHaveTheirOwn) {
  const Array a = call_room(1000, device()), b = call_room(1000, device());
  EXPECT_EQ(a.nbytes(), 1000);
  EXPECT_NE(a.storage(), b.storage());
}

TEST_P(CallRoom, CallsOfACaptureShareWhatTheGraphKeeps) {
  std::weak_ptr<memory::Storage> kept;
  {
    runtime::Graph graph(device());
    capture(&graph, [&] {
      const auto use = [&](int64_t bytes) {
        const Array room = call_room(bytes, device());
        runtime::fill(write(room), 1, 7, static_cast<size_t>(bytes));
        return room.storage();
      };
      const auto first = use(1 << 20);
      EXPECT_EQ(use(1 << 20), first);
      EXPECT_EQ(use(100), first);
      const auto larger = use(4 << 20);
      EXPECT_NE(larger, first);
      EXPECT_EQ(use(1 << 20), larger);
      kept = larger;
    });
    EXPECT_FALSE(kept.expired());
    graph.replay();
    runtime::synchronize(device());
    runtime::Graph other(device());
    capture(&other, [&] { EXPECT_NE(call_room(100, device()).storage(), kept.lock()); });
  }
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace gpukit
