#include "gpukit/ops/common/workspace.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/moe/moe.h"
#include "gpukit/ops/norm/group_norm.h"
#include "gpukit/ops/norm/norm_residual.h"
#include "gpukit/ops/recurrent/lstm.h"
#include "gpukit/ops/sampling/sampling.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/transfer.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

class Workspace : public testing::DeviceTest {
 protected:
  memory::Pool& pool() const { return *runtime::open_device(device()).resource; }
  int64_t allocations() const { return pool().stats().allocations; }
  runtime::Session new_session() const { return runtime::Session().with_stream(runtime::new_stream(device(), 0)); }
  CallWorkspace make(int64_t bytes) const { return {"op", device(), bytes}; }
  /// Writes `value` to all of it on the current stream.
  static void fill(const Array& array, uint32_t value) {
    runtime::fill(write(array), 1, value, static_cast<size_t>(array.nbytes()));
  }
  static double first(const Array& array) { return testing::to_doubles(array.slice(0, 0, 1, 1))[0]; }
};
GPUKIT_ON_DEVICES(Workspace);

/// Captures `body` on the stream of a graph.
template <typename F>
void capture(runtime::Graph* graph, F body) {
  const runtime::Session session = runtime::Session().with_stream(graph->stream());
  const runtime::SessionGuard guard(session);
  graph->begin_capture();
  body();
  graph->end_capture();
}

TEST_P(Workspace, PiecesOfOneCallLieBehindEachOther) {
  EXPECT_EQ(workspace_bytes({3, 100}, DType::float32), 1280);
  EXPECT_EQ(workspace_bytes({0, 7}, DType::float32), 0);
  CallWorkspace workspace = make(1280 + 256);
  const Array a = workspace.take({3, 100}, DType::float32), b = workspace.take({1}, DType::uint8);
  EXPECT_EQ(a.shape(), Dims({3, 100}));
  EXPECT_TRUE(a.is_contiguous());
  EXPECT_EQ(a.device(), device());
  EXPECT_EQ(a.storage(), b.storage());
  EXPECT_EQ(b.offset_bytes() - a.offset_bytes(), 1280);
  EXPECT_EQ(a.offset_bytes() % 256, 0);
  EXPECT_EQ(workspace.take({0}, DType::float32).size(), 0);
  EXPECT_THROW(workspace.take({1}, DType::uint8), Error);
  EXPECT_EQ(make(0).take({4, 0}, DType::float32).size(), 0);
}

TEST_P(Workspace, AWarmCallAllocatesNothing) {
  const runtime::Session session = new_session();
  const runtime::SessionGuard guard(session);
  const auto call = [&] {
    CallWorkspace outer = make(1 << 20);
    const Array a = outer.take({1 << 20}, DType::uint8);
    fill(a, 3);
    {
      CallWorkspace inner = make(4 << 20);
      const Array b = inner.take({4 << 20}, DType::uint8);
      fill(b, 5);
      EXPECT_TRUE(b.storage() != a.storage() || b.offset_bytes() >= a.offset_bytes() + a.nbytes());
    }
    CallWorkspace next = make(100);
    fill(next.take({100}, DType::uint8), 9);
    EXPECT_EQ(first(a), 3);
    return a.storage();
  };
  call();
  const int64_t before = allocations();
  const auto warm = call();
  EXPECT_EQ(call(), warm);
  EXPECT_EQ(allocations(), before);
}

TEST_P(Workspace, TemporariesLieBesideEachOther) {
  const runtime::Session session = new_session();
  const runtime::SessionGuard guard(session);
  int64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    before = round == 1 ? allocations() : before;
    Temporaries temporaries("op");
    std::vector<Array> arrays;
    for (uint32_t i = 0; i < 3; ++i)
      fill(arrays.emplace_back(temporaries.empty({100 << 10}, DType::uint8, device())), i);
    for (size_t i = 0; i < arrays.size(); ++i) EXPECT_EQ(first(arrays[i]), static_cast<double>(i));
  }
  EXPECT_EQ(allocations(), before);
}

TEST_P(Workspace, ThreadsOfOneStreamHaveTheirOwnBytes) {
  const runtime::Session session = new_session();
  const runtime::SessionGuard guard(session);
  CallWorkspace mine = make(1000);
  const Array a = mine.take({1000}, DType::uint8);
  fill(a, 1);
  std::thread([&] {
    const runtime::SessionGuard other(session);
    CallWorkspace workspace = make(1000);
    const Array b = workspace.take({1000}, DType::uint8);
    EXPECT_NE(a.storage(), b.storage());
    fill(b, 2);
  }).join();
  EXPECT_EQ(first(a), 1);
}

TEST_P(Workspace, StreamsHaveTheirOwnBytes) {
  const runtime::Session sessions[2] = {new_session(), new_session()};
  std::shared_ptr<memory::Storage> used[2];
  for (int i = 0; i < 2; ++i) {
    const runtime::SessionGuard guard(sessions[i]);
    used[i] = make(1000).take({1000}, DType::uint8).storage();
  }
  EXPECT_NE(used[0], used[1]);
}

TEST_P(Workspace, TrimReleasesWhatNoCallUses) {
  std::weak_ptr<memory::Storage> idle, busy;
  const runtime::Session sessions[2] = {new_session(), new_session()};
  std::optional<CallWorkspace> call;
  {
    const runtime::SessionGuard guard(sessions[0]);
    idle = make(1000).take({1000}, DType::uint8).storage();
    counted_workspace("op", device());
  }
  const runtime::SessionGuard guard(sessions[1]);
  call.emplace("op", device(), 1000);
  const Array a = call->take({1000}, DType::uint8);
  busy = a.storage();
  EXPECT_FALSE(idle.expired());
  pool().trim();
  EXPECT_TRUE(idle.expired());
  EXPECT_FALSE(busy.expired());
  EXPECT_EQ(runtime::num_workspaces(device()), 1);
  call.reset();
  EXPECT_EQ(make(1000).take({1000}, DType::uint8).storage(), a.storage());
}

TEST_P(Workspace, GoesWithItsStream) {
  std::weak_ptr<memory::Storage> kept;
  std::weak_ptr<driver::Stream> stream;
  {
    const runtime::Session session = new_session();
    const runtime::SessionGuard guard(session);
    kept = make(1000).take({1000}, DType::uint8).storage();
    counted_workspace("op", device());
    stream = session.streams[0];
  }
  const runtime::Session other = new_session();
  const runtime::SessionGuard guard(other);
  make(1000);
  EXPECT_TRUE(kept.expired());
  pool().trim();
  EXPECT_TRUE(stream.expired());
}

TEST_P(Workspace, IsChargedToTheSessionAndMakesRoomForIt) {
  auto account = memory::Account::create("tenant", device(), size_t{8} << 20, false, pool().root());
  const runtime::Session session = new_session().with_account(account);
  const runtime::SessionGuard guard(session);
  std::weak_ptr<memory::Storage> kept = make(4 << 20).take({4 << 20}, DType::uint8).storage();
  EXPECT_EQ(account->live_bytes(), size_t{4} << 20);
  const Array large = Array::empty({6 << 20}, DType::uint8, device());
  EXPECT_TRUE(kept.expired());
  try {
    make(4 << 20);
    FAIL() << "8 MiB hold no more";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(std::string(error.what()).find("op: needs a workspace of 4194304 bytes"), 0u) << error.what();
  }
  EXPECT_EQ(make(1 << 20).take({1 << 20}, DType::uint8).nbytes(), 1 << 20);
  pool().forget(*account);
  EXPECT_EQ(account->live_bytes(), size_t{6} << 20);
}

TEST_P(Workspace, OfACaptureIsTheGraphs) {
  std::weak_ptr<memory::Storage> kept[2];
  {
    runtime::Graph graph(device());
    capture(&graph, [&] {
      const auto use = [&](int64_t bytes) {
        const Array piece = make(bytes).take({bytes}, DType::uint8);
        fill(piece, 7);
        return piece.storage();
      };
      const auto small = use(1 << 20);
      EXPECT_EQ(use(1 << 20), small);
      EXPECT_EQ(use(100), small);
      const auto large = use(4 << 20);
      EXPECT_NE(large, small);
      EXPECT_EQ(use(1 << 20), large);
      kept[0] = small, kept[1] = large;
      CallWorkspace outer = make(100);
      const Array a = outer.take({100}, DType::uint8), b = make(100).take({100}, DType::uint8);
      EXPECT_NE(a.offset_bytes(), b.offset_bytes());
    });
    pool().trim();
    EXPECT_FALSE(kept[0].expired());
    EXPECT_FALSE(kept[1].expired());
    graph.replay();
    runtime::synchronize(device());
    runtime::Graph other(device());
    capture(&other, [&] { EXPECT_NE(make(100).take({100}, DType::uint8).storage(), kept[1].lock()); });
  }
  EXPECT_TRUE(kept[0].expired());
  EXPECT_TRUE(kept[1].expired());
}

TEST_P(Workspace, StreamsOfACaptureHaveTheirOwnBytes) {
  runtime::Graph graph(device());
  const runtime::Session second = new_session();
  capture(&graph, [&] {
    const Array a = make(100).take({100}, DType::uint8);
    const Array counters = counted_workspace("op", device());
    runtime::order_after(*graph.stream(), *second.streams[0]);
    {
      const runtime::SessionGuard guard(second);
      EXPECT_NE(make(100).take({100}, DType::uint8).storage(), a.storage());
      EXPECT_NE(counted_workspace("op", device()).storage(), counters.storage());
    }
    runtime::order_after(*second.streams[0], *graph.stream());
  });
}

TEST_P(Workspace, CountersAreZeroAndTheStreams) {
  const auto zero = [](const Array& block) {
    for (double value : testing::to_doubles(block.slice(0, 0, runtime::kCounterBytes, 1)))
      if (value != 0) return false;
    return true;
  };
  const runtime::Session sessions[2] = {new_session(), new_session()};
  std::optional<Array> blocks[3];
  for (int i = 0; i < 2; ++i) {
    const runtime::SessionGuard guard(sessions[i]);
    fill(Array::empty({runtime::kCountedBytes}, DType::uint8, device()), 255);
    blocks[i] = counted_workspace("op", device());
    EXPECT_TRUE(zero(*blocks[i]));
    EXPECT_EQ(counted_workspace("op", device()).storage(), blocks[i]->storage());
  }
  runtime::Graph graph(device());
  capture(&graph, [&] { blocks[2] = counted_workspace("op", device()); });
  EXPECT_TRUE(zero(*blocks[2]));
  EXPECT_NE(blocks[0]->storage(), blocks[1]->storage());
  EXPECT_NE(blocks[0]->storage(), blocks[2]->storage());
  EXPECT_NE(blocks[1]->storage(), blocks[2]->storage());
}

TEST_P(Workspace, WhatIsLeftThereIsNoResultOfAGraph) {
  runtime::Graph graph(device());
  const Array out = Array::empty({100}, DType::uint8, device());
  fill(out, 0);
  capture(&graph, [&] {
    const Array piece = make(100).take({100}, DType::uint8);
    fill(piece, 7);
    runtime::copy_device(write(out), read(piece), 100);
  });
  graph.replay();
  EXPECT_EQ(first(out), 7);
  fill(out, 1);
  EXPECT_TRUE(graph.verify());
  EXPECT_EQ(first(out), 1);
}

/// A result that lies in the workspace itself, in a layout for which the operation makes another one there.
TEST_P(Workspace, ResultsThatLieThereAreWritten) {
  const runtime::Session session = new_session();
  const runtime::SessionGuard guard(session);
  uint64_t seed = 0;
  const auto random = [&](const Dims& shape) {
    return testing::make_array(testing::random_values(static_cast<size_t>(shape.product()), ++seed), shape,
                               DType::float32, device());
  };
  const auto check = [&](const char* name, auto&& op, auto&& place) {
    const std::vector<double> expected = testing::to_doubles(op(nullptr));
    for (int round = 0; round < 3; ++round) {  // the workspace has grown by the second one
      Temporaries temporaries("test");
      const Array out = place(temporaries);
      op(&out);
      EXPECT_EQ(testing::to_doubles(out), expected) << name;
    }
  };
  const Array x = random({6, 40}), gamma = random({40}), images = random({2, 6, 4, 5}), rows = random({5, 30});
  const auto turned = [&](const Dims& shape, DType dtype) {
    return [this, shape, dtype](Temporaries& temporaries) {
      const Dims axes = shape.rank() == 2 ? Dims{1, 0} : Dims{0, 3, 2, 1};
      Dims stored;
      for (int64_t axis : axes) stored.push_back(shape[static_cast<int>(axis)]);
      return temporaries.empty(stored, dtype, device()).permute(axes);
    };
  };
  check(
      "rmsnorm_residual", [&](const Array* out) { return rmsnorm_residual(x, x, gamma, 1e-5, out); },
      turned({6, 40}, DType::float32));
  check(
      "group_norm", [&](const Array* out) { return group_norm(images, {}, {}, 2, 1e-5, out); },
      turned({2, 6, 4, 5}, DType::float32));
  SamplingParams greedy;
  greedy.temperature = 0.0f;
  check(
      "sample", [&](const Array* out) { return sample(rows, greedy, out); },
      [&](Temporaries& temporaries) { return temporaries.empty({10}, DType::int32, device()).slice(0, 0, 10, 2); });
  // Over the scale, which is read for every element.
  check(
      "adaln",
      [&](const Array* out) {
        const Array scale = out == nullptr ? gamma : out->select(0, 0);
        if (out != nullptr) copy_into(scale, gamma);
        return adaln(x, scale, gamma, 1e-5, out);
      },
      [&](Temporaries& temporaries) {
        return temporaries.empty({6, 40}, DType::float32, device());
      });
  // Over the tokens, which the experts read to the end.
  const MoeWeights experts{
      Weight(random({3, 40})), ExpertWeights(random({3, 16, 40})), ExpertWeights(random({3, 40, 8})), {}, {}, {}};
  check(
      "moe",
      [&](const Array* out) {
        if (out != nullptr) copy_into(*out, x);
        return moe(out != nullptr ? *out : x, experts, {}, out);
      },
      [&](Temporaries& temporaries) {
        return temporaries.empty({6, 40}, DType::float32, device());
      });
  // h_n over c0.
  const Array steps = random({2, 3, 4}), state = random({2, 5});
  const LstmWeights weights{random({20, 4}), random({20, 5}), {}, {}};
  check(
      "lstm_forward",
      [&](const Array* out) {
        if (out == nullptr) return lstm_forward(steps, weights, {}, state).h_n;
        copy_into(*out, state);
        const LstmResult r{Array::empty({2, 3, 5}, DType::float32, device()), *out,
                           Array::empty({2, 5}, DType::float32, device())};
        return lstm_forward(steps, weights, {}, *out, false, &r).h_n;
      },
      [&](Temporaries& temporaries) {
        return temporaries.empty({2, 5}, DType::float32, device());
      });
}

}  // namespace
}  // namespace gpukit
