#include "gpukit/scheduler/tasks/task_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace gpukit::scheduler {
namespace {

std::unique_ptr<Task> make(uint64_t sequence, int64_t rank, int64_t memory = 0) {
  auto task = std::make_unique<Task>();
  task->sequence = sequence;
  task->rank = rank;
  task->spec.memory_bytes = memory;
  return task;
}

TEST(TaskPhase, OnlyTheDrawnTransitionsAreAllowed) {
  using enum TaskPhase;
  const std::vector<std::pair<TaskPhase, TaskPhase>> allowed = {
      {pending, running}, {pending, queued},   {pending, failed}, {pending, cancelled}, {queued, pending},
      {queued, failed},   {queued, cancelled}, {running, failed}, {running, cancelled}, {running, completed}};
  for (int from = 0; from < kTaskPhases; ++from)
    for (int to = 0; to < kTaskPhases; ++to) {
      const std::pair move{static_cast<TaskPhase>(from), static_cast<TaskPhase>(to)};
      const bool listed = std::find(allowed.begin(), allowed.end(), move) != allowed.end();
      EXPECT_EQ(may_become(move.first, move.second), listed) << name(move.first) << " -> " << name(move.second);
      EXPECT_FALSE(is_terminal(move.first) && may_become(move.first, move.second));
    }
}

TEST(TaskPhase, MapsOntoBothPublicEnums) {
  EXPECT_EQ(static_cast<int>(to_state(TaskPhase::queued)), 0);
  EXPECT_EQ(static_cast<int>(to_state(TaskPhase::cancelled)), 4);
  EXPECT_EQ(static_cast<int>(to_call_state(TaskPhase::queued)), 1);
  EXPECT_EQ(to_call_state(TaskPhase::cancelled), CallState::failed);
  for (int i = 0; i < 5; ++i) {
    const auto state = static_cast<CallState>(i);
    EXPECT_EQ(to_call_state(to_phase(state)), state);
  }
}

TEST(TaskQueue, MatchesASortedListUnderRandomUse) {
  std::mt19937 random(7);
  std::vector<std::unique_ptr<Task>> all;
  std::vector<Task*> model;
  TaskQueue queue;
  for (int i = 0; i < 20000; ++i) {
    const unsigned what = random() % 5;
    if (what < 3 || model.empty()) {
      all.push_back(make(static_cast<uint64_t>(i), static_cast<int64_t>(random() % 50)));
      queue.push(all.back().get());
      model.push_back(all.back().get());
    } else if (what == 3) {
      const auto best =
          std::min_element(model.begin(), model.end(), [](auto* a, auto* b) { return starts_before(*a, *b); });
      ASSERT_EQ(queue.pop(), *best);
      EXPECT_EQ((*best)->heap_at, Task::kNotInHeap);
      model.erase(best);
    } else {
      const auto any = model.begin() + static_cast<long>(random() % model.size());
      queue.erase(*any);
      model.erase(any);
    }
    ASSERT_EQ(queue.size(), model.size());
  }
}

TEST(MemoryQueue, FindsTheFirstThatFits) {
  std::mt19937 random(11);
  std::vector<std::unique_ptr<Task>> all;
  MemoryQueue queue;
  for (uint64_t i = 0; i < 500; ++i) {
    all.push_back(make(i, static_cast<int64_t>(random() % 100), static_cast<int64_t>(random() % 100000 + 1)));
    queue.push(all.back().get());
  }
  EXPECT_EQ(queue.size(), 500u);
  while (!queue.empty()) {
    std::vector<Task*> left;
    for (auto& task : all)
      if (task->heap_at != Task::kNotInHeap) left.push_back(task.get());
    const auto before = [](Task* a, Task* b) { return starts_before(*a, *b); };
    Task* first = queue.first();
    ASSERT_EQ(first, *std::min_element(left.begin(), left.end(), before));
    const int64_t room = static_cast<int64_t>(random() % 100000 + 1);
    if (Task* fitting = queue.first_fitting(room)) {
      ASSERT_LE(fitting->spec.memory_bytes, room);
      // Exact among all that are smaller by a power of two.
      for (Task* task : left)
        ASSERT_FALSE(task->spec.memory_bytes <= room / 2 && task != fitting && starts_before(*task, *fitting));
    } else {
      for (Task* task : left) ASSERT_GT(task->spec.memory_bytes, room / 2);
    }
    queue.erase(first);
  }
  EXPECT_EQ(queue.first(), nullptr);
  EXPECT_EQ(queue.first_fitting(1), nullptr);
}

}  // namespace
}  // namespace gpukit::scheduler
