// Giving the GIL up and taking it again, in threads that may outlive the interpreter.
#pragma once

#include <nanobind/nanobind.h>
#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

namespace gpukit::python {

/// For a thread that may not come back into Python: the process is about to end and takes it along.
[[noreturn]] void park();

/// Python ends a thread that wants the GIL after the interpreter has gone by unwinding it. No destructor of ours may
/// run then: it would use what is gone, and the C++ runtime aborts where the unwinding meets a noexcept function.
template <typename F>
void call_or_park(F&& f) {
#ifdef __GLIBCXX__
  try {
    f();
  } catch (abi::__forced_unwind&) {
    park();
  }
#else
  f();
#endif
}

/// Gives the GIL up for its life.
class GilReleased {
 public:
  GilReleased() : thread_(PyEval_SaveThread()) {}
  ~GilReleased() {
    call_or_park([this] { PyEval_RestoreThread(thread_); });
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* thread_;
};

/// Has the GIL for its life, in any thread.
class GilHeld {
 public:
  GilHeld() {
    call_or_park([this] { state_ = PyGILState_Ensure(); });
  }
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_{};
};

}  // namespace gpukit::python
