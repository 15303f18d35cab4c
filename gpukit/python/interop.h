// Arrays of other libraries.
#pragma once

#include "gpukit/python/bind.h"

namespace gpukit::python {

/// From an object with __dlpack__, a DLPack capsule, or a GPUArray. `device` may be None; `copies` is what copy= says.
ArrayObject from_dlpack(AnyArg x, DeviceArg device, std::optional<bool> copies);
/// From an object with __cuda_array_interface__.
ArrayObject from_cuda_array_interface(nb::handle object, DeviceArg device, std::optional<bool> copies);

}  // namespace gpukit::python
