#include "gpukit/runtime/workspace.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(Workspace, TheOldestGoesWhereThereAreTooMany) {
  reset_workspaces();
  const auto first = new_stream(kCpu, 0);
  const std::weak_ptr<memory::Storage> memory = workspace(first);
  std::vector<std::shared_ptr<driver::Stream>> others;
  for (int i = 0; i < 7; ++i) {
    others.push_back(new_stream(kCpu, 0));
    ASSERT_NE(workspace(others.back()), nullptr);
  }
  EXPECT_EQ(workspace(first), memory.lock());  // and is the last used
  const std::weak_ptr<memory::Storage> oldest = workspace(others[0]);
  for (int i = 1; i < 7; ++i) workspace(others[static_cast<size_t>(i)]);
  workspace(first);
  others.push_back(new_stream(kCpu, 0));
  ASSERT_NE(workspace(others.back()), nullptr);
  EXPECT_TRUE(oldest.expired());
  EXPECT_FALSE(memory.expired());
  reset_workspaces();
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace gpukit::runtime
