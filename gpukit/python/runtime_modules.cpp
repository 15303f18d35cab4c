#include "gpukit/python/runtime_modules.h"

namespace nb = nanobind;

namespace gpukit::python {

namespace {

nb::module_ child(nb::module_& parent, const char* name, const char* doc = nullptr) {
  if (nb::hasattr(parent, name)) return nb::borrow<nb::module_>(parent.attr(name));
  return parent.def_submodule(name, doc);
}

}  // namespace

nb::module_ runtime_module(nb::module_& core, const char* name) {
  nb::module_ runtime =
      child(core, "runtime",
            "The runtime core: memory pools, scheduler, transfers, dispatch, partitions, devices, under the "
            "class and method names of _pygpukit_rust.");
  return *name == '\0' ? runtime : child(runtime, name);
}

nb::module_ compat_module(nb::module_& core) {
  return child(core, "_compat", "Names of the 0.2 series; use them through pygpukit.compat.");
}

}  // namespace gpukit::python
