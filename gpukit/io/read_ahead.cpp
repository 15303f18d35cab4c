#include "gpukit/io/read_ahead.h"

#include <algorithm>
#include <chrono>

#include "gpukit/base/error.h"
#include "gpukit/base/thread.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::io {

namespace {
constexpr auto kSignalSlice = std::chrono::milliseconds(50);
}  // namespace

ReadAhead::ReadAhead(const TensorFile& file, std::vector<std::string> order, Device device, Options options)
    : file_(file),
      device_(device),
      options_(std::move(options)),
      session_(runtime::current_session()),
      order_(order.begin(), order.end()) {
  thread_ = start_thread([this] { read(); });
}

ReadAhead::~ReadAhead() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// Empty: the thread ends.
std::vector<std::string> ReadAhead::next_batch(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return stop_ || order_.empty() || ready_bytes_ < options_.ahead_bytes; });
  std::vector<std::string> batch;
  if (stop_) return batch;
  for (int64_t bytes = 0; !order_.empty() && bytes < options_.batch_bytes; order_.pop_front()) {
    bytes += file_.info(order_.front()).bytes;
    reading_.insert(order_.front());
    batch.push_back(std::move(order_.front()));
  }
  return batch;
}

void ReadAhead::read() {
  const runtime::SessionGuard guard(session_);
  std::unique_lock lock(mutex_);
  try {
    for (;;) {
      const std::vector<std::string> batch = next_batch(lock);
      if (batch.empty()) break;
      lock.unlock();
      std::vector<Array> arrays;
      {
        const std::shared_ptr<void> kept = options_.enter ? options_.enter() : nullptr;
        arrays = file_.load(batch, device_);
      }
      lock.lock();
      for (size_t i = 0; i < batch.size(); ++i) {
        ready_bytes_ += arrays[i].nbytes();
        ready_.emplace(batch[i], std::move(arrays[i]));
      }
      reading_.clear();
      changed_.notify_all();
    }
  } catch (...) {
    // Who asks for a tensor of the batch reads it alone, and gets an error that names it.
    if (!lock.owns_lock()) lock.lock();
  }
  order_.clear();
  reading_.clear();
  changed_.notify_all();
}

Array ReadAhead::load(const std::string& name, std::optional<DType> cast) {
  Array array;
  {
    std::unique_lock lock(mutex_);
    while (reading_.contains(name)) {
      changed_.wait_for(lock, kSignalSlice);
      lock.unlock();
      runtime::check_interrupt();
      lock.lock();
    }
    if (const auto found = ready_.find(name); found != ready_.end()) {
      array = std::move(found->second);
      ready_.erase(found);
      ready_bytes_ -= array.nbytes();
      changed_.notify_all();
    } else {
      std::erase(order_, name);
    }
  }
  if (!array.defined()) array = file_.load(std::vector{name}, device_).front();
  return cast ? astype(array, *cast) : array;
}

}  // namespace gpukit::io
