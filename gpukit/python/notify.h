// Python callables called soon, for threads that see the end of work and must not hold the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>

namespace gpukit::python {

/// Makes long waits of the library look for signals, so that Ctrl-C ends them.
void let_signals_end_waits();

/// What add_callback of a Completion takes: calling it from any thread has `callable` called with no arguments, once,
/// on a thread that all such callables share. What it raises is reported as unraisable. The GIL is held here, not
/// there. Raises when that thread cannot be started.
std::function<void()> call_later(nanobind::object callable);

/// An awaitable that is over once `done` was called: the iterator of a future of the running event loop, whose result
/// is `result()`. `add_callback` is given what to call. Cancelling the await leaves the work alone. What call_later
/// runs delays it not.
nanobind::object await_completion(const std::function<void(std::function<void()>)>& add_callback,
                                  nanobind::object result);

}  // namespace gpukit::python
