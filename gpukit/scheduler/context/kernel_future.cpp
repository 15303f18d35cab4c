#include "gpukit/scheduler/context/kernel_future.h"

#include <algorithm>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {

const char* name(FutureState state) {
  switch (state) {
    case FutureState::pending: return "Pending";
    case FutureState::running: return "Running";
    case FutureState::completed: return "Completed";
    case FutureState::failed: return "Failed";
    case FutureState::cancelled: return "Cancelled";
  }
  return "?";
}

LaunchExtent LaunchExtent::linear(int64_t num_elements, int64_t block_size) {
  if (num_elements < 0) throw ArgumentError("linear", "n_elements", "be 0 or more", std::to_string(num_elements));
  if (block_size < 1 || block_size > 1024)
    throw ArgumentError("linear", "block_size", "be 1 to 1024", std::to_string(block_size));
  const int64_t blocks = std::max<int64_t>((num_elements + block_size - 1) / block_size, 1);
  if (blocks > INT32_MAX)
    throw ArgumentError("linear", "n_elements", "fit into 2^31 - 1 blocks", std::to_string(num_elements));
  return {{static_cast<uint32_t>(blocks), 1, 1}, {static_cast<uint32_t>(block_size), 1, 1}, 0};
}

KernelFuture::KernelFuture(uint64_t id, int stream_id, std::string context_id)
    : id_(id),
      stream_id_(stream_id),
      context_id_(std::move(context_id)),
      completion_(std::make_shared<runtime::Completion>()) {}

FutureState KernelFuture::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

KernelResult KernelFuture::result() const {
  std::lock_guard lock(mutex_);
  return result_;
}

std::optional<KernelResult> KernelFuture::wait(int64_t timeout_ns) const {
  if (!completion_->wait(timeout_ns)) return std::nullopt;
  return result();
}

std::optional<KernelResult> KernelFuture::try_get() const {
  if (!is_ready()) return std::nullopt;
  return result();
}

double KernelFuture::exec_time() const {
  std::lock_guard lock(mutex_);
  return result_.exec_time;
}

bool KernelFuture::mark_launched() {
  std::lock_guard lock(mutex_);
  if (state_ != FutureState::pending) return false;
  state_ = FutureState::running;
  return true;
}

bool KernelFuture::complete(double exec_time, std::optional<std::string> output) {
  std::function<void()> before_end;
  {
    std::lock_guard lock(mutex_);
    if (state_ != FutureState::pending && state_ != FutureState::running) return false;
    state_ = FutureState::completed;
    result_.success = true;
    result_.exec_time = exec_time;
    if (output) result_.output = std::move(output);
    before_end.swap(before_end_);
  }
  if (before_end) before_end();
  completion_->finish(exec_time * 1e6);
  return true;
}

bool KernelFuture::fail(const std::string& error) {
  std::function<void()> before_end;
  {
    std::lock_guard lock(mutex_);
    if (state_ != FutureState::pending && state_ != FutureState::running) return false;
    state_ = FutureState::failed;
    result_.success = false;
    result_.error = error;
    before_end.swap(before_end_);
  }
  if (before_end) before_end();
  completion_->fail(std::make_exception_ptr(Error(error)));
  return true;
}

bool KernelFuture::cancel() {
  std::function<void()> before_end;
  {
    std::lock_guard lock(mutex_);
    if (state_ != FutureState::pending) return false;
    state_ = FutureState::cancelled;
    result_.success = false;
    result_.error = "cancelled before it was launched";
    before_end.swap(before_end_);
  }
  if (before_end) before_end();
  completion_->cancel("cancelled before it was launched");
  return true;
}

void KernelFuture::set_output(std::string output) {
  std::lock_guard lock(mutex_);
  result_.output = std::move(output);
}

std::string str(const KernelFuture& future) {
  return "KernelFuture(id=" + std::to_string(future.id()) + ", context_id='" + future.context_id() +
         "', stream_id=" + std::to_string(future.stream_id()) + ", state=" + name(future.state()) + ")";
}

}  // namespace gpukit::scheduler
