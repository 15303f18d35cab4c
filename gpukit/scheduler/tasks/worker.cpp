#include "gpukit/scheduler/tasks/worker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/thread.h"

namespace gpukit::scheduler {

namespace {

constexpr int kMaxWorkers = 256;
constexpr int64_t kCheckEvery = 50'000'000;

}  // namespace

thread_local const Workers::Shared* Workers::t_shared_ = nullptr;

Workers::Workers(std::shared_ptr<Scheduler> scheduler) : scheduler_(std::move(scheduler)) {}

Workers::~Workers() {
  try {
    {
      std::lock_guard lock(mutex_);
      left_.clear();
    }
    stop();
  } catch (...) {  // a thread that cannot be joined is left to itself
  }
}

int Workers::Shared::others() {
  std::lock_guard lock(mutex);
  return running - (t_shared_ == this ? 1 : 0);
}

bool Workers::Shared::wait(int64_t until_ns, const std::function<void()>& check) {
  while (others() > 0) {
    const int64_t now = real_clock().now_ns();
    if (now >= until_ns) return false;
    if (check) check();
    std::unique_lock lock(mutex);
    if (running <= (t_shared_ == this ? 1 : 0)) break;
    real_clock().wait(ended, lock, check ? std::min(until_ns, now + kCheckEvery) : until_ns);
  }
  return true;
}

/// After a fork: they stayed in the parent process, and their locks may be taken here.
void Workers::forget_parents_threads() {
  for (std::thread& gone : threads_) gone.detach();
  threads_.clear();
  left_.clear();
  count_ = 0;
}

void Workers::start(int count, ThreadStarter starter) {
  if (count < 1 || count > kMaxWorkers)
    throw ArgumentError("Scheduler.start_workers", "count", "be from 1 to 256", std::to_string(count));
  if (!starter) starter = [](std::function<void()> body) { return start_thread(std::move(body)); };
  std::lock_guard lock(mutex_);
  if (fork_generation_ != files::fork_generation()) forget_parents_threads();
  if (!threads_.empty())
    throw Error("Scheduler.start_workers: " + std::to_string(threads_.size()) + " workers run already");
  fork_generation_ = files::fork_generation();
  shared_ = std::make_shared<Shared>();
  shared_->scheduler = scheduler_;
  try {
    for (int i = 0; i < count; ++i) {
      threads_.push_back(starter([shared = shared_] {
        t_shared_ = shared.get();
        shared->scheduler->serve(shared->stop);
        std::lock_guard lock(shared->mutex);
        --shared->running;
        shared->ended.notify_all();
      }));
      std::lock_guard lock(shared_->mutex);
      ++shared_->running;
    }
    count_ = count;
  } catch (const std::exception& error) {
    const std::string reason = "Scheduler.start_workers: thread " + std::to_string(threads_.size() + 1) + " of " +
                               std::to_string(count) + " could not be started: " + error.what();
    shared_->stop.store(true, std::memory_order_release);
    scheduler_->wake();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    throw Error(reason);
  }
}

bool Workers::stop(int64_t timeout_ns, const std::function<void()>& check) {
  std::vector<std::shared_ptr<Shared>> groups;
  {
    std::lock_guard lock(mutex_);
    if (fork_generation_ != files::fork_generation()) forget_parents_threads();
    groups = left_;
    if (!threads_.empty()) {
      shared_->stop.store(true, std::memory_order_release);
      groups.push_back(shared_);
    }
  }
  if (groups.empty()) return true;
  scheduler_->wake();
  // The machine's clock: a process that ends does not wait for a clock that nobody moves.
  const int64_t now = real_clock().now_ns();
  const int64_t until = timeout_ns < 0 || timeout_ns >= Clock::kForever - now ? Clock::kForever : now + timeout_ns;
  bool all = true;
  for (const auto& group : groups) all &= group->wait(until, check);
  std::lock_guard lock(mutex_);
  if (!threads_.empty() && groups.back() == shared_) {  // else another stop() was first
    const bool ended = shared_->others() == 0;
    for (std::thread& thread : threads_) {
      // A task may stop the workers of its own scheduler.
      if (ended && thread.get_id() != std::this_thread::get_id())
        thread.join();
      else
        thread.detach();
    }
    left_.push_back(std::move(shared_));
    threads_.clear();
    count_ = 0;
  }
  std::erase_if(left_, [](const auto& group) {
    std::lock_guard lock(group->mutex);
    return group->running == 0;
  });
  return all;
}

int Workers::count() const noexcept { return fork_generation_ == files::fork_generation() ? count_.load() : 0; }

}  // namespace gpukit::scheduler
