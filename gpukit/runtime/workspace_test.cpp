#include "gpukit/runtime/workspace.h"

#include <gtest/gtest.h>

#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/stream_group.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

/// What a capture that begins now has.
std::shared_ptr<memory::Storage> captured() {
  Graph graph(kCpu);
  graph.begin_capture();
  std::shared_ptr<memory::Storage> found = workspace(graph.stream());
  graph.end_capture();
  return found;
}

TEST(Workspace, OneAStreamAndOneACaptureOfTheContextsThatAsk) {
  const auto first = new_stream(kCpu, 0), second = new_stream(kCpu, 0);
  const auto memory = workspace(first);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->bytes(), kWorkspaceBytes);
  EXPECT_EQ(workspace(first), memory);
  EXPECT_NE(workspace(second), memory);

  EXPECT_EQ(captured(), nullptr);
  keep_workspaces_for_captures(open_device(kCpu).context);
  const auto own = captured();
  ASSERT_NE(own, nullptr);
  EXPECT_NE(own, memory);
  {
    const gpukit::testing::FakeDriver other;  // another context
    EXPECT_EQ(captured(), nullptr);
  }
  reset_workspaces();
  EXPECT_EQ(captured(), nullptr);
  EXPECT_NE(workspace(first), memory);
  reset_workspaces();
}

}  // namespace
}  // namespace gpukit::runtime
