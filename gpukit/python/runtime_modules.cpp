#include "gpukit/python/runtime_modules.h"

namespace nb = nanobind;

namespace gpukit::python {

namespace {

nb::module_ child(nb::module_& parent, const char* name) {
  if (nb::hasattr(parent, name)) return nb::borrow<nb::module_>(parent.attr(name));
  return parent.def_submodule(name);
}

}  // namespace

nb::module_ runtime_module(nb::module_& core, const char* name) {
  nb::module_ runtime = child(core, "runtime");
  return *name == '\0' ? runtime : child(runtime, name);
}

}  // namespace gpukit::python
