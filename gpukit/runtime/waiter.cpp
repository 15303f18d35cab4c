#include "gpukit/runtime/waiter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <thread>
#include <unordered_map>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/thread.h"
#include "gpukit/runtime/device.h"

namespace gpukit::runtime {
namespace {

using std::chrono::nanoseconds;

std::atomic<void (*)()> g_interrupt_check{nullptr};

constexpr int64_t kSignalSlice = 50'000'000;
// An event that has taken t is looked at every t / 8, within these bounds.
constexpr int64_t kShortestSleep = 20'000;
constexpr int64_t kLongestSleep = 1'000'000;
// How long a wait asks the driver again and again: a sleep takes 50 us longer than asked for.
constexpr int64_t kShortSpin = 50'000;
constexpr int64_t kLongSpin = 2'000'000;
constexpr int kUnknownError = 999;  // CUDA_ERROR_UNKNOWN

}  // namespace

void set_interrupt_check(void (*check)()) { g_interrupt_check.store(check, std::memory_order_release); }

void check_interrupt() {
  if (auto* check = g_interrupt_check.load(std::memory_order_acquire)) check();
}

void wait_for_device(const std::function<bool()>& over, const std::function<void()>& wait, bool sleep) {
  if (g_interrupt_check.load(std::memory_order_acquire) == nullptr) return wait();
  if (over()) return;
  const int64_t begin = real_clock().now_ns();
  int64_t checked = begin;
  do {
    const int64_t now = real_clock().now_ns(), waited = now - begin;
    if (now - checked >= kSignalSlice) {
      check_interrupt();
      checked = now;
    }
    if (waited >= (sleep ? kShortSpin : kLongSpin))
      real_clock().sleep_ns(std::clamp(waited / 64, kShortestSleep, kLongestSleep / 2));
    else if (waited >= kShortSpin)
      std::this_thread::yield();
  } while (!over());
}

// Completion

Completion::Completion() : created_ns_(real_clock().now_ns()) {}

Completion::State Completion::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

bool Completion::wait(int64_t timeout_ns, Clock& clock) const {
  const bool real = &clock == &real_clock();
  const int64_t until = timeout_ns < 0 ? Clock::kForever : clock.now_ns() + timeout_ns;
  int64_t checked = real_clock().now_ns();
  std::unique_lock lock(mutex_);
  while (state_ == State::pending) {
    const int64_t now = clock.now_ns();
    if (now >= until) return false;
    if (until == Clock::kForever)
      changed_.wait_for(lock, nanoseconds(kSignalSlice));
    else
      clock.wait(changed_, lock, real ? std::min(until, now + kSignalSlice) : until);
    if (real_clock().now_ns() - checked < kSignalSlice) continue;
    lock.unlock();
    check_interrupt();
    lock.lock();
    checked = real_clock().now_ns();
  }
  return true;
}

void Completion::rethrow() const {
  std::exception_ptr why;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::done) return;
    if (state_ == State::pending) throw Error("the work is still pending");
    why = why_;
  }
  std::rethrow_exception(why);
}

std::string Completion::error() const {
  std::exception_ptr why;
  {
    std::lock_guard lock(mutex_);
    why = why_;
  }
  if (why == nullptr) return "";
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

void Completion::add_callback(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::pending) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

bool Completion::end(State state, std::exception_ptr why, double device_us) {
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::pending) return false;
    state_ = state;
    why_ = std::move(why);
    device_us_ = device_us;
    finished_ns_ = real_clock().now_ns();
    callbacks.swap(callbacks_);
    changed_.notify_all();
  }
  for (const auto& callback : callbacks) callback();
  return true;
}

bool Completion::finish(double device_us) { return end(State::done, nullptr, device_us); }

bool Completion::fail(std::exception_ptr why) { return end(State::failed, std::move(why), -1); }

bool Completion::fail(int code, const std::string& error_name, const std::string& what) {
  return fail(std::make_exception_ptr(CudaError(what, code, error_name)));
}

bool Completion::cancel(const std::string& why) {
  return end(State::cancelled, std::make_exception_ptr(Error(why)), -1);
}

int64_t Completion::finished_ns() const {
  std::lock_guard lock(mutex_);
  return finished_ns_;
}

double Completion::device_us() const {
  std::lock_guard lock(mutex_);
  return device_us_;
}

// Waiter

struct Waiter::State {
  explicit State(Device of) : device(of) {}

  struct Entry {
    std::shared_ptr<driver::Event> event;
    Callback done;
  };
  struct Queue {
    std::deque<Entry> entries;
    int64_t since_ns = 0;  // when the first entry became the first
  };
  struct Head {
    uint64_t stream;
    std::shared_ptr<driver::Event> event;
    int code;
    bool over;
  };

  void serve();
  /// Looks at each head; no lock held.
  bool look(std::vector<Head>& heads) const;
  int64_t sleep_for() const;

  const Device device;
  mutable std::mutex mutex;
  std::condition_variable wake, drained, ended;
  std::unordered_map<uint64_t, Queue> queues;  // by stream; none is empty
  size_t pending = 0;                          // queued, or being called back
  bool started = false, running = false, arrived = false, stop = false;
};

bool Waiter::State::look(std::vector<Head>& heads) const {
  bool any = false;
  for (Head& head : heads) {
    try {
      head.over = head.event->query();
    } catch (const CudaError& error) {
      head.over = true;
      head.code = error.code;
      open_device(device).health.note_error(error.code,
                                            std::string("an event of ") + str(device) + " found " + error.name);
    } catch (...) {
      head.over = true;
      head.code = kUnknownError;
    }
    any = any || head.over;
  }
  return any;
}

int64_t Waiter::State::sleep_for() const {
  const int64_t now = real_clock().now_ns();
  int64_t youngest = INT64_MAX;
  for (const auto& [stream, queue] : queues) youngest = std::min(youngest, now - queue.since_ns);
  return std::clamp(youngest / 8, kShortestSleep, kLongestSleep);
}

void Waiter::State::serve() {
  std::vector<Head> heads;
  std::vector<std::pair<Entry, int>> over;
  std::unique_lock lock(mutex);
  while (!stop) {
    if (queues.empty()) {
      wake.wait(lock, [&] { return stop || !queues.empty(); });
      continue;
    }
    arrived = false;
    heads.clear();
    for (const auto& [stream, queue] : queues) heads.push_back({stream, queue.entries.front().event, 0, false});
    lock.unlock();
    const bool any = look(heads);
    lock.lock();
    if (!any) {
      if (!arrived && !stop) wake.wait_for(lock, nanoseconds(sleep_for()), [&] { return stop || arrived; });
      continue;
    }
    const int64_t now = real_clock().now_ns();
    for (const Head& head : heads) {
      if (!head.over) continue;
      auto found = queues.find(head.stream);
      over.emplace_back(std::move(found->second.entries.front()), head.code);
      found->second.entries.pop_front();
      found->second.since_ns = now;
      if (found->second.entries.empty()) queues.erase(found);
    }
    lock.unlock();
    heads.clear();
    const size_t count = over.size();
    for (auto& [entry, code] : over) {
      try {
        entry.done(code);
      } catch (...) {
        // A callback promises not to throw; one that breaks it must not end the thread that others rely on.
      }
    }
    over.clear();
    lock.lock();
    pending -= count;
    if (pending == 0) drained.notify_all();
  }
  running = false;
  drained.notify_all();
  ended.notify_all();
}

namespace {

/// Left behind in a forked child, whose threads do not exist and whose locks may be taken.
struct Waiters {
  explicit Waiters(uint64_t of) : generation(of) {}
  const uint64_t generation;
  std::mutex mutex;
  std::vector<std::pair<Device, Waiter*>> list;
  bool exiting = false;
};

std::atomic<Waiters*> g_waiters{nullptr};

Waiters& waiters() {
  Waiters* seen = g_waiters.load(std::memory_order_acquire);
  const uint64_t generation = files::fork_generation();
  while (seen == nullptr || seen->generation != generation) {
    auto* fresh = new Waiters(generation);
    if (g_waiters.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *seen;
}

}  // namespace

Waiter::Waiter(Device device) : state_(new State(device)) {}

Waiter& Waiter::of(Device device) {
  Waiters& all = waiters();
  std::lock_guard lock(all.mutex);
  for (const auto& [known, waiter] : all.list)
    if (known == device) return *waiter;
  auto* waiter = new Waiter(device);
  waiter->state_->stop = all.exiting;
  all.list.emplace_back(device, waiter);
  return *waiter;
}

void Waiter::add(const std::shared_ptr<driver::Stream>& stream, std::shared_ptr<driver::Event> event, Callback done) {
  std::lock_guard lock(state_->mutex);
  if (state_->stop) throw Error("waiter: the process is exiting; nothing more is waited for");
  if (!state_->started) {
    State* state = state_;
    start_thread([state] {
      wake_on_time();
      state->serve();
    }).detach();
    state_->started = state_->running = true;
    static const int hook = std::atexit([] { stop_waiters(); });
    static_cast<void>(hook);
  }
  State::Queue& queue = state_->queues[stream->id()];
  if (queue.entries.empty()) {
    queue.since_ns = real_clock().now_ns();
    state_->arrived = true;
    state_->wake.notify_one();
  }
  queue.entries.push_back({std::move(event), std::move(done)});
  ++state_->pending;
}

void Waiter::drain() {
  std::unique_lock lock(state_->mutex);
  while (state_->pending != 0 && state_->running) {
    state_->drained.wait_for(lock, nanoseconds(kSignalSlice));
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
}

size_t Waiter::pending() const {
  std::lock_guard lock(state_->mutex);
  return state_->pending;
}

void stop_waiters() noexcept {
  Waiters& all = waiters();
  std::vector<Waiter::State*> states;
  {
    std::lock_guard lock(all.mutex);
    all.exiting = true;
    for (const auto& [device, waiter] : all.list) states.push_back(waiter->state_);
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (Waiter::State* state : states) {
    std::unique_lock lock(state->mutex);
    state->stop = true;
    state->wake.notify_all();
    state->ended.wait_until(lock, limit, [&] { return !state->running; });
  }
}

std::shared_ptr<Completion> completion_of(const std::shared_ptr<driver::Stream>& stream) {
  auto event = std::make_shared<driver::Event>(stream->context(), false, true);
  event->record(*stream);
  auto completion = std::make_shared<Completion>();
  Waiter::of(stream->device()).add(stream, std::move(event), [completion, stream](int code) {
    if (code == 0)
      completion->finish();
    else
      completion->fail(code, stream->api().error_name(code), "work on " + str(stream->device()));
  });
  return completion;
}

}  // namespace gpukit::runtime
