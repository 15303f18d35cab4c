#include "gpukit/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/thread.h"

namespace gpukit {
namespace {

constexpr int kMaxThreads = 256;
/// Enough pieces to even out the load on any sensible number of threads.
constexpr int64_t kMaxPieces = 256;

std::atomic<int> g_chosen{0}, g_standard{0};
thread_local bool t_inside = false;
thread_local Interruptible* t_work = nullptr;          // made by this thread
thread_local const Interruptible* t_helped = nullptr;  // of the thread this one helps

constexpr int64_t kLookNs = 50'000'000;
/// A piece is run in parts of so many grains, with a look between them.
constexpr int64_t kPartGrains = 64;

/// Between two looks at what another thread writes.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct Job {
  detail::RangeFunction function;
  void* context;
  int64_t size, step, part;
  Interruptible* work;  // null: runs to its end
  std::atomic<int64_t> next{0};

  void run(bool own_thread) {
    for (;;) {
      const int64_t begin = next.fetch_add(step, std::memory_order_relaxed);
      if (begin >= size) return;
      const int64_t end = std::min(begin + step, size);
      for (int64_t at = begin; at < end; at += part) {
        function(context, at, std::min(at + part, end));
        if (work != nullptr && !(own_thread ? work->look() : work->wanted())) return;
      }
    }
  }
};

/// A job has places for helpers. Who finds one joins; a job that its caller has ended has none, so nobody is waited for
/// but those who have begun. Idle workers look out for the next job for a while, which costs the caller no system
/// call, and sleep then.
class Pool {
 public:
  explicit Pool(uint64_t generation) : generation(generation) {}

  /// False when another thread uses the workers: the caller then runs alone.
  bool run(Job& job, int helpers) {
    std::unique_lock use(in_use_, std::try_to_lock);
    if (!use.owns_lock()) return false;
    start_workers(helpers);
    helpers = std::min(helpers, num_workers_);
    job_ = &job;
    places_.store(static_cast<uint64_t>(helpers) * kOpen);
    if (num_workers_ - asleep_.load() < helpers) wake(helpers);
    t_inside = true;
    job.run(true);
    t_inside = false;
    places_.fetch_and(kRunning);
    wait_for_helpers();
    return true;
  }

  const uint64_t generation;

 private:
  static constexpr uint64_t kOpen = uint64_t{1} << 32, kRunning = kOpen - 1;  // in places_
  static constexpr int kLooks = 64;                                           // before one at the clock
  static constexpr int64_t kLookOutNs = 100'000;
  static constexpr int64_t kOthersNs = 20'000;  // a yield that takes longer let others run

  void start_workers(int count) {
    if (num_workers_ >= count) return;
    while (num_workers_ < count) {
      try {
        start_thread([this] { serve(); }).detach();
      } catch (const Error&) {
        return;  // fewer workers, same result
      }
      ++num_workers_;
    }
  }

  void wake(int helpers) {
    // A worker that is about to sleep holds the lock from its last look at the places on.
    { std::lock_guard lock(mutex_); }
    if (helpers == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
  }

  bool is_open() const { return places_.load() >= kOpen; }
  bool is_running() const { return (places_.load() & kRunning) != 0; }

  template <typename Done>
  static bool look(const Done& done) {
    for (int i = 0; i < kLooks; ++i) {
      if (done()) return true;
      relax();
    }
    return false;
  }

  /// A worker's: until a job has a place. False: none came for a while, or others want this core.
  bool look_out() const {
    const int64_t began = files::monotonic_ns();
    for (int64_t now = began; now - began < kLookOutNs;) {
      if (look([&] { return is_open(); })) return true;
      const int64_t before = files::monotonic_ns();
      std::this_thread::yield();
      now = files::monotonic_ns();
      if (now - before > kOthersNs) return false;
    }
    return false;
  }

  /// Helpers that have begun end soon, unless others have taken their core.
  void wait_for_helpers() {
    const int64_t began = files::monotonic_ns();
    do {
      if (look([&] { return !is_running(); })) return;
    } while (files::monotonic_ns() - began < kLookOutNs);
    std::unique_lock lock(mutex_);
    waits_.store(true);
    done_.wait(lock, [&] { return !is_running(); });
    waits_.store(false);
  }

  bool join() {
    uint64_t seen = places_.load();
    while (seen >= kOpen)
      if (places_.compare_exchange_weak(seen, seen - kOpen + 1)) return true;
    return false;
  }

  void leave() {
    if (((places_.fetch_sub(1) - 1) & kRunning) != 0 || !waits_.load()) return;
    std::lock_guard lock(mutex_);
    done_.notify_one();
  }

  void serve() {
    t_inside = true;
    for (;;) {
      while (join()) {
        t_helped = job_->work;
        job_->run(false);
        leave();
      }
      if (look_out()) continue;
      std::unique_lock lock(mutex_);
      asleep_.fetch_add(1);
      wake_.wait(lock, [&] { return is_open(); });
      asleep_.fetch_sub(1);
    }
  }

  std::mutex in_use_;
  int num_workers_ = 0;  // under in_use_
  Job* job_ = nullptr;   // of who holds in_use_; read by who has joined
  std::atomic<uint64_t> places_{0};
  std::atomic<int> asleep_{0};
  std::atomic<bool> waits_{false};  // the caller, for done_
  std::mutex mutex_;
  std::condition_variable wake_, done_;
};

/// Leaked, and left behind in a forked child: its workers do not exist there and its locks may be taken.
Pool& pool() {
  static std::atomic<Pool*> current{nullptr};
  Pool* seen = current.load(std::memory_order_acquire);
  const uint64_t generation = files::fork_generation();
  while (seen == nullptr || seen->generation != generation) {
    Pool* fresh = new Pool(generation);
    if (current.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *seen;
}

int default_threads() {
  const int asked = env::num_threads();
  return std::clamp(asked > 0 ? asked : files::available_cpus(), 1, kMaxThreads);
}

/// Work in flight must not fail for a bad variable: whoever asks num_threads() first, the device's opening, raises it.
int threads_in_use() noexcept {
  try {
    return num_threads();
  } catch (...) {
    return 1;
  }
}

}  // namespace

int num_threads() {
  const int chosen = g_chosen.load(std::memory_order_relaxed);
  if (chosen > 0) return chosen;
  // No guarded static: a fork while another thread finds the number would leave the child waiting for it.
  int standard = g_standard.load(std::memory_order_relaxed);
  if (standard == 0) g_standard.store(standard = default_threads(), std::memory_order_relaxed);
  return standard;
}

void set_num_threads(int count) {
  if (count < 0) throw ArgumentError("set_num_threads", "count", "not be negative", std::to_string(count));
  g_chosen.store(std::min(count, kMaxThreads), std::memory_order_relaxed);
}

Interruptible::Interruptible(void (*check)()) noexcept : check_(check), outer_(t_work) { t_work = this; }
Interruptible::~Interruptible() { t_work = outer_; }

bool Interruptible::look() noexcept {
  if (!wanted()) return false;
  const int64_t now = files::monotonic_ns();
  if (checked_ns_ == 0) checked_ns_ = now;
  if (now - checked_ns_ < kLookNs) return true;
  try {
    // Its handlers may compute too, with no part in this work.
    t_work = nullptr;
    check_();
  } catch (...) {
    error_ = std::current_exception();
    ended_.store(true, std::memory_order_relaxed);
  }
  t_work = this;
  checked_ns_ = files::monotonic_ns();
  return wanted();
}

bool work_wanted() noexcept {
  if (t_work != nullptr) return t_work->look();
  return t_helped == nullptr || t_helped->wanted();
}

void detail::parallel_for(int64_t size, int64_t grain, RangeFunction function, void* context) {
  if (size <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (size - 1) / grain + 1;
  const int64_t pieces = std::min(grains, kMaxPieces);
  const int64_t step = ((grains - 1) / pieces + 1) * grain;
  if (t_work != nullptr && !t_work->wanted()) return;
  Job job{function, context, size, step, std::min(step / grain, kPartGrains) * grain, t_work};
  const int helpers = static_cast<int>(std::min<int64_t>(threads_in_use(), (size - 1) / step + 1)) - 1;
  if (helpers > 0 && !t_inside && pool().run(job, helpers)) return;
  job.run(true);
}

}  // namespace gpukit
