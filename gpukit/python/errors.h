// C++ exceptions as the Python classes of pygpukit.errors.
#pragma once

#include <nanobind/nanobind.h>

namespace gpukit::python {

/// Takes the classes from the module pygpukit.errors and installs the translator.
void bind_errors(nanobind::module_& m);

}  // namespace gpukit::python
