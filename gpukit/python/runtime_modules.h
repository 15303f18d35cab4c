// The Python module pygpukit.runtime and its sub-modules, made by whoever asks first.
#pragma once

#include <nanobind/nanobind.h>

namespace gpukit::python {

/// `name` is one of memory, scheduler, transfer, dispatch, device; empty gives the module itself.
nanobind::module_ runtime_module(nanobind::module_& core, const char* name = "");

}  // namespace gpukit::python
