// x[key] and x[key] = value for the class GPUArray.
#pragma once

#include <nanobind/nanobind.h>

namespace gpukit::python {

namespace nb = nanobind;

/// `key` is what Python hands to __getitem__: integers, slices, ..., None, GPUArrays, and NumPy arrays or lists of
/// integers or bools, which are copied to the array's device. Throws IndexError for anything else.
nb::object getitem(nb::handle self, nb::handle key);
void setitem(nb::handle self, nb::handle key, nb::handle value);

}  // namespace gpukit::python
