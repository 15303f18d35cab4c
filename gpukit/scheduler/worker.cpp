#include "gpukit/scheduler/worker.h"

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

Workers::Workers(std::shared_ptr<Scheduler> scheduler) : scheduler_(std::move(scheduler)) {}

Workers::~Workers() {
  try {
    stop();
  } catch (...) {  // a thread that cannot be joined is left to itself
  }
}

void Workers::start(int count, ThreadStarter starter) {
  if (count < 1 || count > kMaxWorkers)
    throw ArgumentError("Scheduler.start_workers", "count", "be from 1 to 256", std::to_string(count));
  if (!starter) starter = [](std::function<void()> body) { return start_thread(std::move(body)); };
  std::lock_guard lock(mutex_);
  if (!threads_.empty() && fork_generation_ == files::fork_generation())
    throw Error("Scheduler.start_workers: " + std::to_string(threads_.size()) + " workers run already");
  for (std::thread& gone : threads_) gone.detach();  // they stayed in the parent process
  threads_.clear();
  fork_generation_ = files::fork_generation();
  shared_ = std::make_shared<Shared>();
  shared_->scheduler = scheduler_;
  try {
    for (int i = 0; i < count; ++i) {
      threads_.push_back(starter([shared = shared_] {
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
  std::lock_guard lock(mutex_);
  if (threads_.empty()) return true;
  if (fork_generation_ != files::fork_generation()) {
    for (std::thread& gone : threads_) gone.detach();
    threads_.clear();
    return true;
  }
  shared_->stop.store(true, std::memory_order_release);
  scheduler_->wake();
  // The machine's clock: a process that ends does not wait for a clock that nobody moves.
  const int64_t until = timeout_ns < 0 ? Clock::kForever : real_clock().now_ns() + timeout_ns;
  bool own = false;
  for (const std::thread& thread : threads_) own |= thread.get_id() == std::this_thread::get_id();
  std::unique_lock wait(shared_->mutex);
  while (shared_->running > (own ? 1 : 0)) {
    const int64_t now = real_clock().now_ns();
    if (now >= until) break;
    real_clock().wait(shared_->ended, wait, check ? std::min(until, now + kCheckEvery) : until);
    if (!check) continue;
    wait.unlock();
    check();
    wait.lock();
  }
  const bool all = shared_->running <= (own ? 1 : 0);
  wait.unlock();
  for (std::thread& thread : threads_) {
    // A task may stop the workers of its own scheduler.
    if (all && thread.get_id() != std::this_thread::get_id())
      thread.join();
    else
      thread.detach();
  }
  threads_.clear();
  count_ = 0;
  return all;
}

int Workers::count() const noexcept { return fork_generation_ == files::fork_generation() ? count_.load() : 0; }

}  // namespace gpukit::scheduler
