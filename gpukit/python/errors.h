// C++ exceptions as the Python classes of pygpukit.errors.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace gpukit::python {

/// Takes the classes from the module pygpukit.errors and installs the translator.
void bind_errors(nanobind::module_& m);
/// What Python would raise for an exception that a call of ours threw.
nanobind::object to_exception(const std::exception_ptr& error);

}  // namespace gpukit::python
