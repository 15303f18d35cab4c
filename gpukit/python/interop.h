// Arrays of other libraries.
#pragma once

#include "gpukit/python/bind.h"

namespace gpukit::python {

/// From an object with __dlpack__, a DLPack capsule, or a GPUArray. `device` and `copy` may be None.
ArrayObject from_dlpack(AnyArg x, DeviceArg device, BoolArg copy_wanted);
/// From an object with __cuda_array_interface__.
ArrayObject from_cuda_array_interface(nb::handle object, DeviceArg device, BoolArg copy_wanted);

}  // namespace gpukit::python
