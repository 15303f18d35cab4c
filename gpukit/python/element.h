// Single elements as Python numbers and as text.
#pragma once

#include <string>

#include "gpukit/python/bind.h"

namespace gpukit::python {

/// bool, int, float or complex. `bytes` is one element of `dtype`; a packed one gives its byte.
nb::object element_to_python(DType dtype, const void* bytes);
/// The shortest text that reads back as the same element.
std::string element_text(DType dtype, const void* bytes);
/// `GPUArray([...], shape=(2, 3), dtype=float32, device=cpu, backend=simulation)`: reads edge values only. Waits.
std::string describe(const Array& array);

}  // namespace gpukit::python
