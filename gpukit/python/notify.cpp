#include "gpukit/python/notify.h"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "gpukit/base/files.h"
#include "gpukit/python/bind.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::python {

namespace {

/// A queue of callables and the Python thread that calls them. Never destroyed; a forked child starts its own.
struct Notifier {
  explicit Notifier(const char* thread) : name(thread) {}
  const char* const name;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<PyObject*> queue;  // each owns a reference
  bool stopping = false;
  bool serving = false;  // a thread reads the queue
  bool started = false;  // the GIL guards it
  uint64_t generation = 0;
};

/// Callables of users may take long, and no await may wait for them.
enum class Caller : uint8_t { user, event_loop };

Notifier*& notifier_slot(Caller caller) {
  static Notifier* users = new Notifier("pygpukit-notify");
  static Notifier* loops = new Notifier("pygpukit-await");
  return caller == Caller::user ? users : loops;
}

void run(Notifier& self) {
  {
    std::lock_guard lock(self.mutex);
    if (std::exchange(self.serving, true)) return;  // two threads were started at once
  }
  for (;;) {
    std::vector<PyObject*> ready;
    {
      GilReleased released;
      std::unique_lock lock(self.mutex);
      self.changed.wait(lock, [&] { return self.stopping || !self.queue.empty(); });
      ready.swap(self.queue);
      if (ready.empty()) return;
    }
    for (PyObject* callable : ready) {
      PyObject* result = nullptr;
      call_or_park([&] { result = PyObject_CallNoArgs(callable); });
      if (result == nullptr) PyErr_WriteUnraisable(callable);
      Py_XDECREF(result);
      Py_DECREF(callable);
    }
  }
}

/// The GIL is held. Throws what starting a thread raises; the next call tries again.
Notifier& notifier(Caller caller) {
  Notifier*& slot = notifier_slot(caller);
  if (slot->started && slot->generation != files::fork_generation()) slot = new Notifier(slot->name);
  Notifier& self = *slot;
  if (self.started) return self;
  nb::object thread = nb::module_::import_("threading")
                          .attr("Thread")("target"_a = nb::cpp_function([&self] { run(self); }), "name"_a = self.name,
                                          "daemon"_a = true);
  thread.attr("start")();
  if (self.started) return self;  // starting gives the GIL up
  self.started = true;
  self.generation = files::fork_generation();
  nb::object stop = nb::cpp_function([&self, thread] {
    {
      std::lock_guard lock(self.mutex);
      self.stopping = true;
    }
    self.changed.notify_all();
    if (self.generation == files::fork_generation()) thread.attr("join")(1.0);
  });
  nb::module_::import_("atexit").attr("register")(stop);
  return self;
}

}  // namespace

void let_signals_end_waits() {
  runtime::set_interrupt_check([] {
    if (!Py_IsInitialized()) return;
    GilHeld held;
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  });
}

namespace {

std::function<void()> call_on(Caller caller, nb::object callable) {
  Notifier* self = &notifier(caller);
  return [self, raw = callable.release().ptr()] {
    {
      std::lock_guard lock(self->mutex);
      if (self->stopping) return;  // the interpreter is on its way out
      self->queue.push_back(raw);
    }
    self->changed.notify_one();
  };
}

}  // namespace

std::function<void()> call_later(nb::object callable) { return call_on(Caller::user, std::move(callable)); }

nb::object await_completion(const std::function<void(std::function<void()>)>& add_callback, nb::object result) {
  nb::object loop = nb::module_::import_("asyncio").attr("get_running_loop")();
  nb::object future = loop.attr("create_future")();
  nb::object settle = nb::cpp_function([future, result] {
    if (nb::cast<bool>(future.attr("done")())) return;
    try {
      future.attr("set_result")(result());
    } catch (nb::python_error& error) {
      future.attr("set_exception")(error.value());
    }
  });
  add_callback(call_on(Caller::event_loop, nb::cpp_function([loop, settle] {
                         try {
                           loop.attr("call_soon_threadsafe")(settle);
                         } catch (nb::python_error& error) {
                           // The loop was closed: nobody awaits any more.
                           if (!nb::cast<bool>(loop.attr("is_closed")())) throw;
                         }
                       })));
  return future.attr("__await__")();
}

}  // namespace gpukit::python
