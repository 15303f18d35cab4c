// Threads beside an event loop, for work that a device without a queue runs in the thread that submits it.
#pragma once

#include "gpukit/python/bind.h"
#include "gpukit/scheduler/context/context_session.h"

namespace gpukit::python {

/// True where work on `device` runs in the thread that submits it and this thread serves an event loop.
bool would_block_a_loop(Device device);

/// Calls `job` in the thread of a session's owner, in the order of the calls, in a copy of the present context. It must
/// not raise.
void run_beside(const scheduler::SessionOwner& owner, nb::object job);

/// Waits for what run_beside was given for `owner`. Nothing in that thread itself.
void settle_beside(const scheduler::SessionOwner& owner);

/// Lets the owner's thread go once it has run what it was given.
void forget_beside(const scheduler::SessionOwner& owner);

}  // namespace gpukit::python
