// What a session of a partition or of an execution context is made of, and who is inside.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "gpukit/memory/account.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_group.h"

namespace gpukit::scheduler {

/// A stream, its group and an account that sessions use. Everything submitted inside goes to the stream, every byte is
/// charged to the account. Any number of threads and tasks may be inside at once. Thread-safe.
class SessionOwner {
 public:
  /// `what` names the owner in messages: `context 'a'`.
  SessionOwner(std::string what, Device device, std::shared_ptr<runtime::StreamGroup> group,
               std::shared_ptr<memory::Account> account);

  const std::string& what() const { return what_; }
  Device device() const { return device_; }
  const std::shared_ptr<driver::Stream>& stream() const { return stream_; }
  const std::shared_ptr<runtime::StreamGroup>& group() const { return group_; }
  const std::shared_ptr<memory::Account>& account() const { return account_; }

  /// The session inside `outer`; its work comes after what the outer stream holds. Throws Error when closed or inside a
  /// capture. Each enter() needs a leave().
  runtime::Session enter(const runtime::Session& outer);
  /// The outer stream's later work comes after what was submitted inside. Counted out even when it throws CudaError.
  void leave(const runtime::Session& outer);
  int entered() const;

  /// Ends it: waits for work in flight, lets signals through; later work is refused. Throws Error, naming `op`, while
  /// someone is inside; then, or when the wait is interrupted, nothing has changed.
  void close(const char* op);
  bool closed() const;
  /// Streams with work in flight.
  int busy_streams() const;

 private:
  const std::string what_;
  const Device device_;
  const std::shared_ptr<runtime::StreamGroup> group_;
  const std::shared_ptr<memory::Account> account_;
  const std::shared_ptr<driver::Stream> stream_;
  mutable std::mutex mutex_;
  int entered_ = 0;
  bool closed_ = false;
};

/// Makes an owner's session current in this thread for the guard's life.
class SessionScope {
 public:
  explicit SessionScope(SessionOwner& owner)
      : owner_(owner), outer_(runtime::current_session()), session_(owner.enter(outer_)), guard_(session_) {}
  ~SessionScope();
  SessionScope(const SessionScope&) = delete;
  SessionScope& operator=(const SessionScope&) = delete;

 private:
  SessionOwner& owner_;
  const runtime::Session outer_;
  const runtime::Session session_;
  runtime::SessionGuard guard_;
};

/// Bytes charged to `account` and below that are in use, not merely kept for reuse.
int64_t used_bytes(const memory::Account& account);

}  // namespace gpukit::scheduler
