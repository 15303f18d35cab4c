// Library messages go to logging.getLogger("pygpukit").
#include "gpukit/base/log.h"

#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

void send(LogLevel level, std::string_view message) {
  if (!Py_IsInitialized()) return;
  const GilHeld held;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);  // a message may be logged while an exception is on its way
  try {
    // Not a guarded static: importing lets other threads run, and one of them may log.
    static PyObject* logger = nullptr;
    static constexpr int levels[] = {10, 20, 30, 40};
    call_or_park([&] {
      if (logger == nullptr) logger = nb::module_::import_("logging").attr("getLogger")("pygpukit").release().ptr();
      nb::handle(logger).attr("log")(levels[static_cast<int>(level)], "%s", nb::str(message.data(), message.size()));
    });
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("pygpukit log sink");
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace

void bind_log(nb::module_&) {
  set_log_sink([](LogLevel level, std::string_view message) {
    if (level != LogLevel::off) send(level, message);
  });
}

}  // namespace gpukit::python
