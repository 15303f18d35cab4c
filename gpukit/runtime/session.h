// The current session of a thread: default device, streams and accounts. Python keeps it in a ContextVar and enters it
// per call.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpukit/base/env.h"
#include "gpukit/driver/objects.h"
#include "gpukit/memory/account.h"

namespace gpukit::runtime {

class Capture;

/// Immutable; a change makes a new one.
struct Session {
  std::optional<Device> device;
  std::vector<std::shared_ptr<driver::Stream>> streams;    // at most one per device
  std::vector<std::shared_ptr<memory::Account>> accounts;  // at most one per device
  std::optional<env::Determinism> determinism = {};

  Session with_device(Device value) const;
  Session with_stream(std::shared_ptr<driver::Stream> stream) const;
  Session with_account(std::shared_ptr<memory::Account> account) const;
  Session with_determinism(env::Determinism level) const;
};

/// The stream work on `device` goes to: the session's, else the device's default stream. Kept alive by what is
/// returned, also when the session ends or its partition changes.
std::shared_ptr<driver::Stream> current_stream(Device device);
/// The same without counting a reference, for the length of one call of the library: good while the session is entered
/// and until this thread has been sent to a few other streams.
const std::shared_ptr<driver::Stream>& borrow_stream(Device device);
/// What new memory on `device` is charged to: the session's account, else that of the default pool, else null (the
/// device's root).
std::shared_ptr<memory::Account> current_account(Device device);
const Session& current_session();
/// The level results are promised at: the session's, else that of PYGPUKIT_DETERMINISM.
env::Determinism determinism();
/// Multiprocessors that work submitted now runs on: those of the session's partition, or all.
int current_sm_count(Device device);

/// Makes `session` current in this thread for the guard's life. The session must outlive it.
class SessionGuard {
 public:
  explicit SessionGuard(const Session& session) : previous_(current_) { current_ = &session; }
  ~SessionGuard() { current_ = previous_; }
  SessionGuard(const SessionGuard&) = delete;
  SessionGuard& operator=(const SessionGuard&) = delete;

 private:
  friend const Session& current_session();
  friend const std::shared_ptr<driver::Stream>& borrow_stream(Device device);
  friend std::shared_ptr<memory::Account> current_account(Device device);
  static thread_local const Session* current_;
  const Session* previous_;
};

}  // namespace gpukit::runtime
