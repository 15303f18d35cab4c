// Arrays of other libraries.
#pragma once

#include "gpukit/python/bind.h"

namespace gpukit::python {

/// From an object with __dlpack__, a DLPack capsule, or a GPUArray. `device` and `copy` may be None.
ArrayObject from_dlpack(nb::handle x, nb::handle device, nb::handle copy_wanted);
/// From an object with __cuda_array_interface__.
ArrayObject from_cuda_array_interface(nb::handle object, nb::handle device, nb::handle copy_wanted);

}  // namespace gpukit::python
