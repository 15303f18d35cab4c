// Threads that run a scheduler's work.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::scheduler {

/// Starts one thread; throws when it cannot.
using ThreadStarter = std::function<std::thread(std::function<void()>)>;

/// Worker threads of one scheduler, which they keep alive. Thread-safe.
class Workers {
 public:
  explicit Workers(std::shared_ptr<Scheduler> scheduler);
  /// Stops them; waits for work that runs, but not for threads that a stop() with a limit left behind.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// All of them or none: when a thread cannot be started, those already started are ended and Error is thrown.
  /// Throws Error as well when workers run already, ArgumentError for a count outside 1..256.
  /// The default starter is start_thread().
  void start(int count, ThreadStarter starter = {});
  /// Ends the threads after the task each of them runs. With a limit, threads that do not end in time are left to
  /// themselves: they touch nothing of this object. True when all have ended, those left behind by an earlier stop()
  /// too; the task that calls this does not count. `check` is called now and then while this waits, with no lock held;
  /// what it throws ends the wait, and stop() can be called again.
  bool stop(int64_t timeout_ns = -1, const std::function<void()>& check = {});
  int count() const noexcept;

 private:
  /// Outlives the workers when a thread is left to itself.
  struct Shared {
    std::shared_ptr<Scheduler> scheduler;
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::condition_variable ended;
    int running = 0;

    int others();  // that run, this thread not counted
    bool wait(int64_t until_ns, const std::function<void()>& check);
  };
  void forget_parents_threads();

  static thread_local const Shared* t_shared_;  // of the worker that runs this thread
  std::shared_ptr<Scheduler> scheduler_;
  std::mutex mutex_;                           // held while starting, not while waiting nor by the threads
  std::shared_ptr<Shared> shared_;             // of the threads in threads_
  std::vector<std::shared_ptr<Shared>> left_;  // of threads that did not end in time
  std::vector<std::thread> threads_;
  std::atomic<uint64_t> fork_generation_{0};
  std::atomic<int> count_{0};  // read without the lock, which start() may hold for long
};

}  // namespace gpukit::scheduler
