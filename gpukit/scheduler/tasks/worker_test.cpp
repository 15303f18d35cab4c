#include "gpukit/scheduler/tasks/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/base/thread.h"

namespace gpukit::scheduler {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TaskSpec work(Work function, std::string id = "") {
  TaskSpec spec;
  spec.id = std::move(id);
  spec.work = std::move(function);
  return spec;
}

TEST(Workers, RunEverythingOnceWithinTheMemory) {
  SchedulerConfig config;
  config.total_memory = 100;
  config.history = 50;
  auto scheduler = std::make_shared<Scheduler>(config);
  Workers workers(scheduler);
  workers.start(4);
  EXPECT_EQ(workers.count(), 4);
  EXPECT_THROW(workers.start(1), Error);
  std::atomic<int64_t> in_use{0}, most{0}, ran{0};
  std::vector<std::thread> submitters;
  for (unsigned s = 0; s < 3; ++s)
    submitters.emplace_back([&, s] {
      std::mt19937 random(s);
      std::string last;
      for (int i = 0; i < 1000; ++i) {
        const int64_t bytes = static_cast<int64_t>(random() % 60);
        TaskSpec spec = work([&, bytes](const TaskControl&) {
          const int64_t now = in_use.fetch_add(bytes) + bytes;
          for (int64_t seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
          }
          ran.fetch_add(1);
          in_use.fetch_sub(bytes);
          if (bytes % 10 == 7) throw std::runtime_error("seven");
        });
        spec.memory_bytes = bytes;
        spec.priority = static_cast<int64_t>(random() % 5);
        if (i % 5 == 0 && !last.empty()) spec.dependencies.push_back(last);
        last = scheduler->submit(std::move(spec))->spec.id;
        if (i % 50 == 3) scheduler->cancel(last);
      }
    });
  for (std::thread& one : submitters) one.join();
  EXPECT_TRUE(scheduler->wait_idle());
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.total_submitted, 3000u);
  EXPECT_EQ(stats.completed_count + stats.failed_count + stats.cancelled_count, 3000u);
  EXPECT_GE(static_cast<uint64_t>(ran.load()), stats.completed_count);
  EXPECT_GT(stats.failed_count, 0u);
  EXPECT_LE(most.load(), 100);
  EXPECT_EQ(stats.reserved_memory, 0);
  EXPECT_TRUE(workers.stop());
  EXPECT_EQ(workers.count(), 0);
}

TEST(Workers, StartIsAllOrNothing) {
  auto scheduler = std::make_shared<Scheduler>();
  Workers workers(scheduler);
  int started = 0;
  const ThreadStarter third_fails = [&](std::function<void()> body) {
    if (++started == 3) throw Error("no more threads");
    return std::thread(std::move(body));
  };
  try {
    workers.start(4, third_fails);
    FAIL() << "must throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "Scheduler.start_workers: thread 3 of 4 could not be started: no more threads");
  }
  EXPECT_EQ(workers.count(), 0);
  fail_thread_starts(1);
  EXPECT_THROW(workers.start(2), Error);
  workers.start(2);  // and works again
  auto task = scheduler->submit(work([](const TaskControl&) {}));
  EXPECT_TRUE(scheduler->wait(*task, real_clock().now_ns() + 60 * kSecond));
  EXPECT_THROW(workers.start(0), Error);
}

TEST(Workers, StopLetsRunningWorkEndAndKeepsTheRest) {
  auto scheduler = std::make_shared<Scheduler>();
  std::atomic<bool> inside{false}, go{false};
  auto first = scheduler->submit(work([&](const TaskControl&) {
    inside = true;
    while (!go) std::this_thread::yield();
  }));
  auto second = scheduler->submit(work([](const TaskControl&) {}));
  Workers workers(scheduler);
  workers.start(1);
  while (!inside) std::this_thread::yield();
  std::thread stopper([&] { workers.stop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  go = true;
  stopper.join();
  EXPECT_EQ(scheduler->phase(*first), TaskPhase::completed);
  EXPECT_EQ(scheduler->phase(*second), TaskPhase::pending);
  EXPECT_EQ(scheduler->run(), 1u);
}

TEST(Workers, AStopWithALimitLeavesStuckThreads) {
  auto scheduler = std::make_shared<Scheduler>();
  auto go = std::make_shared<std::atomic<bool>>(false), inside = std::make_shared<std::atomic<bool>>(false);
  auto ended = std::make_shared<std::atomic<bool>>(false);
  scheduler->submit(work([=](const TaskControl&) {
    *inside = true;
    while (!*go) std::this_thread::yield();
    *ended = true;
  }));
  {
    Workers workers(scheduler);
    workers.start(1);
    while (!*inside) std::this_thread::yield();
    EXPECT_FALSE(workers.stop(10'000'000));
    EXPECT_EQ(workers.count(), 0);
    EXPECT_FALSE(workers.stop(10'000'000));  // it still runs
    workers.start(1);                        // beside it
    EXPECT_FALSE(workers.stop(10'000'000));
  }
  *go = true;
  EXPECT_TRUE(scheduler->wait_idle(real_clock().now_ns() + 60 * kSecond));
  EXPECT_TRUE(*ended);
}

TEST(Workers, AStopWaitsForWhatAnEarlierOneLeftBehind) {
  auto scheduler = std::make_shared<Scheduler>();
  std::atomic<bool> go{false}, inside{false}, ended{false};
  scheduler->submit(work([&](const TaskControl&) {
    inside = true;
    while (!go) std::this_thread::yield();
    ended = true;
  }));
  Workers workers(scheduler);
  workers.start(1);
  while (!inside) std::this_thread::yield();
  EXPECT_FALSE(workers.stop(1'000'000));
  std::thread mover([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    go = true;
  });
  EXPECT_TRUE(workers.stop());
  EXPECT_TRUE(ended);
  mover.join();
  EXPECT_TRUE(workers.stop());
}

TEST(Workers, TheCheckOfAStopMayStopAndAsk) {
  auto scheduler = std::make_shared<Scheduler>();
  std::atomic<bool> go{false}, inside{false};
  scheduler->submit(work([&](const TaskControl&) {
    inside = true;
    while (!go) std::this_thread::yield();
  }));
  Workers workers(scheduler);
  workers.start(2);
  while (!inside) std::this_thread::yield();
  bool inner = true;
  EXPECT_TRUE(workers.stop(-1, [&] {
    if (!go) inner = workers.stop(1'000'000);
    go = true;
  }));
  EXPECT_FALSE(inner);
}

TEST(Workers, ATaskMayStopItsWorkers) {
  auto scheduler = std::make_shared<Scheduler>();
  Workers workers(scheduler);
  auto task = scheduler->submit(work([&](const TaskControl&) { workers.stop(); }));
  workers.start(1);
  EXPECT_TRUE(scheduler->wait(*task, real_clock().now_ns() + 60 * kSecond));
  EXPECT_EQ(scheduler->phase(*task), TaskPhase::completed);
}

TEST(Workers, DeadlinesPassWhileEveryoneWaits) {
  VirtualClock clock;
  auto scheduler = std::make_shared<Scheduler>(SchedulerConfig{}, clock);
  Workers workers(scheduler);
  workers.start(2);
  TaskSpec spec = work([&](const TaskControl& control) {
    while (!control.stop_requested()) std::this_thread::yield();
  });
  spec.timeout_ns = kSecond;
  auto running = scheduler->submit(std::move(spec));
  TaskSpec blocked = work([](const TaskControl&) {});
  blocked.dependencies = {running->spec.id};
  blocked.timeout_ns = kSecond / 2;
  auto waiting = scheduler->submit(std::move(blocked));
  std::thread mover([&] {
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      clock.advance_ns(kSecond / 10);
    }
  });
  EXPECT_TRUE(scheduler->wait_idle());
  mover.join();
  EXPECT_EQ(scheduler->info(*running).failure, Failure::deadline);
  EXPECT_EQ(scheduler->info(*waiting).failure, Failure::deadline);
}

TEST(Workers, AThreadThatRunsWaitsForTheWorkers) {
  auto scheduler = std::make_shared<Scheduler>();
  Workers workers(scheduler);
  std::atomic<int> ran{0};
  for (int round = 0; round < 20; ++round) {
    auto first = scheduler->submit(work([&](const TaskControl&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++ran;
    }));
    TaskSpec second = work([&](const TaskControl&) { ++ran; });
    second.dependencies = {first->spec.id};
    scheduler->submit(std::move(second));
    if (round == 0) workers.start(2);
    scheduler->run();
    EXPECT_TRUE(scheduler->wait_idle());
  }
  EXPECT_EQ(ran.load(), 40);
}

TEST(Workers, WorkMayUseItsScheduler) {
  auto scheduler = std::make_shared<Scheduler>();
  std::atomic<int> ran{0};
  scheduler->submit(work([&](const TaskControl&) {
    scheduler->submit(work([&](const TaskControl&) { ++ran; }));
    EXPECT_EQ(scheduler->run(), 1u);  // does not wait for itself
    EXPECT_THROW(scheduler->wait_idle(), Error);
    ++ran;
  }));
  EXPECT_EQ(scheduler->run(), 1u);
  EXPECT_EQ(ran.load(), 2);
}

}  // namespace
}  // namespace gpukit::scheduler
