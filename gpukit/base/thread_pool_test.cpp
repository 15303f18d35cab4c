#include "gpukit/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>
#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "gpukit/base/error.h"

namespace gpukit {
namespace {

using Cuts = std::set<std::pair<int64_t, int64_t>>;

Cuts cuts(int64_t size, int64_t grain) {
  Cuts seen;
  std::mutex mutex;
  parallel_for(size, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    seen.emplace(begin, end);
  });
  return seen;
}

class ThreadPool : public testing::Test {
 protected:
  void TearDown() override { set_num_threads(0); }
};

TEST_F(ThreadPool, CutsDependOnSizeAndGrainAlone) {
  for (int64_t size : {0, 1, 7, 64, 1000, 100001})
    for (int64_t grain : {1, 3, 64, 5000}) {
      set_num_threads(1);
      const Cuts expected = cuts(size, grain);
      int64_t at = 0;
      for (const auto& [begin, end] : expected) {
        EXPECT_EQ(begin, at);
        EXPECT_EQ(begin % grain, 0);
        EXPECT_GT(end, begin);
        at = end;
      }
      EXPECT_EQ(at, size);
      for (int threads = 2; threads <= 8; ++threads) {
        set_num_threads(threads);
        EXPECT_EQ(cuts(size, grain), expected) << size << " " << grain << " " << threads;
      }
    }
}

TEST_F(ThreadPool, NestedRunsInline) {
  set_num_threads(4);
  std::atomic<int64_t> total{0};
  parallel_for(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id outer = std::this_thread::get_id();
      parallel_for(100, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        total += e - b;
      });
    }
  });
  EXPECT_EQ(total.load(), 6400);
}

TEST_F(ThreadPool, ManyCallersAtOnce) {
  set_num_threads(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) parallel_for(32, 1, [&](int64_t b, int64_t e) { total += e - b; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4 * 300 * 32);
}

TEST_F(ThreadPool, ResultIsVisibleToTheCaller) {
  set_num_threads(4);
  std::vector<int64_t> values(10000);
  for (int round = 1; round < 50; ++round) {
    parallel_for(10000, 16, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) values[i] = i * round;
    });
    for (int64_t i = 0; i < 10000; ++i) ASSERT_EQ(values[i], i * round);
  }
}

TEST_F(ThreadPool, WorkersThatSleepAreWoken) {
  set_num_threads(3);
  for (int round = 0; round < 60; ++round) {
    // Each index waits for the others, so every one needs a thread of its own.
    std::atomic<int> begun{0};
    parallel_for(3, 1, [&](int64_t, int64_t) {
      ++begun;
      while (begun < 3) std::this_thread::yield();
    });
    EXPECT_EQ(begun.load(), 3);
    // From those that still look out for work to those that have gone to sleep.
    std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
  }
}

TEST_F(ThreadPool, NoHelperIsWaitedForThatHasNotBegun) {
  set_num_threads(2);
  std::atomic<int> inside{0};
  for (int round = 0; round < 20000; ++round) {
    parallel_for(2, 1, [&](int64_t, int64_t) {
      ++inside;
      --inside;
    });
    // Whoever had begun has ended, and nobody comes later.
    ASSERT_EQ(inside.load(), 0);
  }
}

TEST_F(ThreadPool, NegativeCountsAreRefused) {
  EXPECT_THROW(set_num_threads(-1), ArgumentError);
  EXPECT_THROW(set_num_threads(INT32_MIN), ArgumentError);
}

TEST_F(ThreadPool, WorkThatIsInterruptedEndsEarly) {
  for (int threads : {1, 4}) {
    set_num_threads(threads);
    Interruptible work([] { throw Error("enough"); });
    std::atomic<int64_t> done{0};
    // Years of it: only the check ends it.
    parallel_for(int64_t{1} << 60, 1, [&](int64_t b, int64_t e) { done += e - b; });
    EXPECT_LT(done, int64_t{1} << 60);
    EXPECT_FALSE(work_wanted());
    const int64_t before = done;
    parallel_for(1000, 1, [&](int64_t b, int64_t e) { done += e - b; });
    EXPECT_EQ(done, before);
    EXPECT_THROW(work.rethrow(), Error);
    work.rethrow();
  }
  EXPECT_TRUE(work_wanted());
}

TEST_F(ThreadPool, OneIndexThatTakesLongAsksToo) {
  set_num_threads(2);
  Interruptible work([] { throw Error("enough"); });
  parallel_for(4, 1, [](int64_t, int64_t) {
    while (work_wanted()) {
    }
  });
  EXPECT_THROW(work.rethrow(), Error);
}

TEST_F(ThreadPool, AChangeOfMindIsNone) {
  static std::atomic<int> asked{0};
  asked = 0;
  Interruptible work([] { ++asked; });
  std::atomic<int64_t> done{0};
  while (asked < 2) parallel_for(100000, 10, [&](int64_t b, int64_t e) { done += e - b; });
  EXPECT_EQ(done % 100000, 0);
  work.rethrow();
}

#ifndef _WIN32
TEST_F(ThreadPool, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer refuses threads in a forked child";
#endif
  set_num_threads(4);
  cuts(1000, 1);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      std::mutex mutex;
      std::set<std::thread::id> threads;
      std::atomic<int64_t> total{0};
      int64_t rounds = 0;
      // A busy machine may wake the workers late: try until one was seen.
      for (; rounds < 50 || (threads.size() < 2 && rounds < 1000000); ++rounds)
        parallel_for(64, 1, [&](int64_t b, int64_t e) {
          total += e - b;
          std::this_thread::yield();
          std::lock_guard lock(mutex);
          threads.insert(std::this_thread::get_id());
        });
      _exit(total == rounds * 64 && threads.size() > 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}
#endif

}  // namespace
}  // namespace gpukit
