// `with` and `async with` over a session of a partition or a context.
#pragma once

#include <memory>

#include "gpukit/python/bind.h"
#include "gpukit/scheduler/context/context_session.h"

namespace gpukit::python {

/// What entering gives; None: the scope itself.
struct SessionScopeObject {
  std::shared_ptr<void> keep;  // who owns the session owner
  scheduler::SessionOwner* owner = nullptr;
  nb::object value;
};

/// Makes the owner's session current in Python's context, as the innermost scope of `scope`.
void enter_session(nb::handle scope, scheduler::SessionOwner& owner);
/// Throws Error when `scope` is not the innermost one; the session stays entered then.
void leave_session(nb::handle scope, scheduler::SessionOwner& owner);

/// Enters a session for the guard's life, and leaves whatever was entered inside and not left.
class SessionEntered {
 public:
  explicit SessionEntered(const nb::object& scope);
  ~SessionEntered();
  SessionEntered(const SessionEntered&) = delete;
  SessionEntered& operator=(const SessionEntered&) = delete;
  /// Earlier than the end, to raise what leaving finds.
  void leave();

 private:
  nb::object scope_;
  bool inside_ = true;
};

}  // namespace gpukit::python
