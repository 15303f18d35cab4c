// Arrays from and to host memory, and between devices. Row-major data only: make a strided array contiguous first.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// A new array with a copy of the row-major elements at `data`, which may be reused when this returns.
Array from_host(const void* data, const Dims& shape, DType dtype, Device device);

/// Copies the elements of a contiguous array to `data`, row-major. Waits. Throws inside a capture, naming `caller`.
void to_host(void* data, const Array& array, const char* caller = "to_host");

/// A copy of a contiguous array on another device; `array` itself when it is there already.
Array to_device(const Array& array, Device device);

}  // namespace gpukit
