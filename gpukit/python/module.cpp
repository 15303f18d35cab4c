// The extension module pygpukit._core.
#include <nanobind/nanobind.h>

#include "gpukit/base/version.h"
#include "gpukit/python/calls.h"
#include "gpukit/python/errors.h"
#include "gpukit/python/state.h"

namespace gpukit {
/// Generated: calls every bind_<name> of the library.
void bind_all(nanobind::module_& m);
}  // namespace gpukit

// The state of the library is one for the process, so that a second interpreter would take it from the first. Looked at
// before nanobind sets anything up: the entry point is made under another name and called by the real one.
#define PyInit__core init_in_main_interpreter
NB_MODULE(_core, m) {
  m.doc() = "PyGPUkit's C++ core. Use it through the package pygpukit.";
  m.def("_version", &gpukit::version, "The version of the library; internal.");
  nb::set_leak_warnings(false);  // process-wide objects stay until the end by design

  gpukit::python::bind_errors(m);
  gpukit::python::bind_session(m);
  gpukit::python::bind_dtypes(m);
  gpukit::python::bind_log(m);
  gpukit::python::bind_devices(m);
  gpukit::python::bind_streams(m);
  gpukit::python::bind_graphs(m);
  gpukit::python::bind_array(m);
  gpukit::python::bind_factory(m);
  gpukit::python::bind_memory(m);
  gpukit::python::bind_report(m);
  gpukit::bind_all(m);
  gpukit::python::explain_calls(m);
}

#undef PyInit__core

extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return init_in_main_interpreter();
  PyErr_SetString(PyExc_ImportError, "pygpukit: cannot be imported in a subinterpreter; use it in the main one");
  return nullptr;
}
