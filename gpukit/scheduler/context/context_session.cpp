#include "gpukit/scheduler/context/context_session.h"

#include "gpukit/base/error.h"
#include "gpukit/base/log.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"
#include "gpukit/scheduler/partition/partition_rest.h"

namespace gpukit::scheduler {

namespace {

/// Stands at the gate of streams whose owner is gone.
class ClosedGate final : public runtime::StreamControl {
 public:
  uint64_t admit(const std::shared_ptr<driver::Stream>&, const char* name, runtime::SubmitKind, size_t) override {
    throw Error(std::string(name) + ": the partition or context of this session was deleted; leave the session");
  }
  void submitted(uint64_t, const std::shared_ptr<driver::Stream>&, int) noexcept override {}
  void moved(const std::shared_ptr<driver::Stream>&, const std::shared_ptr<driver::Stream>& to) override {
    to->control.store(this, std::memory_order_release);
  }
};

ClosedGate& closed_gate() {
  static auto* gate = new ClosedGate;
  return *gate;
}

/// Its streams, named after the owner.
std::shared_ptr<driver::Stream> first_stream(runtime::StreamGroup& group, const std::string& what) {
  group.set_label(what);
  return group.make_stream(0);
}

std::shared_ptr<driver::Stream> stream_of(const runtime::Session& session, Device device) {
  runtime::SessionGuard guard(session);
  return runtime::current_stream(device);
}

}  // namespace

SessionOwner::SessionOwner(std::string what, Device device, std::shared_ptr<runtime::StreamGroup> group,
                           std::shared_ptr<memory::Account> account)
    : what_(std::move(what)),
      device_(device),
      group_(std::move(group)),
      account_(std::move(account)),
      stream_(first_stream(*group_, what_)) {}

runtime::Session SessionOwner::enter(const runtime::Session& outer) {
  runtime::refuse_in_capture(what_.c_str(), "a session is entered by events on other streams");
  {
    std::lock_guard lock(mutex_);
    if (closed_) throw Error(what_ + ": it was deleted and cannot be entered");
    ++entered_;
  }
  try {
    runtime::open_device(device_).health.check();
    const std::shared_ptr<driver::Stream> before = stream_of(outer, device_);
    runtime::order_after(*before, *runtime::resolve(stream_));
    return outer.with_device(device_).with_stream(stream_).with_account(account_);
  } catch (...) {
    std::lock_guard lock(mutex_);
    --entered_;
    throw;
  }
}

void SessionOwner::leave(const runtime::Session& outer) {
  {
    std::lock_guard lock(mutex_);
    --entered_;
  }
  const std::shared_ptr<driver::Stream> after = stream_of(outer, device_);
  runtime::order_after(*runtime::resolve(stream_), *after);
}

int SessionOwner::entered() const {
  std::lock_guard lock(mutex_);
  return entered_;
}

bool SessionOwner::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

int SessionOwner::busy_streams() const {
  int busy = 0;
  for (const auto& stream : group_->streams()) {
    stream->context().make_current();
    if (stream->capture.load(std::memory_order_relaxed) == nullptr && !stream->query()) ++busy;
  }
  return busy;
}

void SessionOwner::close(const char* op) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    if (entered_ > 0) {
      throw Error(std::string(op) + ": " + what_ + " has " + std::to_string(entered_) +
                  (entered_ == 1 ? " session entered; leave it first" : " sessions entered; leave them first"));
    }
    closed_ = true;
  }
  try {
    for (const auto& stream : group_->streams()) runtime::completion_of(stream)->wait();
  } catch (...) {
    std::lock_guard lock(mutex_);
    closed_ = false;
    throw;
  }
  group_->set_hook([what = what_](const auto&) { throw Error("Stream: " + what + " was deleted; leave its session"); });
  // Before the gate is closed: nobody takes the streams under another control after that.
  PartitionRest::of(device_).remove_group(group_);
  for (const auto& stream : group_->streams()) {
    DispatchController::of(device_).detach(stream);
    DispatchController::of(device_).leave(stream);
    stream->control.store(&closed_gate(), std::memory_order_release);
  }
}

SessionScope::~SessionScope() {
  try {
    owner_.leave(outer_);
  } catch (const Error& error) {
    log(LogLevel::error, owner_.what() + ": leaving the session found " + error.what());
  }
}

int64_t used_bytes(const memory::Account& account) {
  auto used = static_cast<int64_t>(account.charged());
  for (const auto& other : memory::accounts(account.device()))
    if (account.contains(*other)) used -= static_cast<int64_t>(other->cached_bytes());
  return std::max<int64_t>(used, 0);
}

}  // namespace gpukit::scheduler
