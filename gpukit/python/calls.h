// What a call says that no overload takes, and what inspect.signature reads.
#pragma once

#include <nanobind/nanobind.h>

namespace gpukit::python {

/// For every function and method bound in `m` and below it: one line that names the argument at fault instead of
/// nanobind's list of overloads, and `__signature__`. Call it after everything is bound.
void explain_calls(nanobind::module_& m);

}  // namespace gpukit::python
