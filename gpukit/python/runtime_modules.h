// Sub-modules of the extension, made by whoever asks first.
#pragma once

#include <nanobind/nanobind.h>

namespace gpukit::python {

/// `name` is one of memory, scheduler, transfer, dispatch, device; empty gives the module itself.
nanobind::module_ runtime_module(nanobind::module_& core, const char* name = "");
/// What only the 0.2 series called so: pygpukit.compat.
nanobind::module_ compat_module(nanobind::module_& core);

}  // namespace gpukit::python
