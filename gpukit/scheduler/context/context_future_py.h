// The Python side of a request for dispatch_async.
#pragma once

#include "gpukit/python/bind.h"
#include "gpukit/scheduler/context/kernel_future.h"

namespace gpukit::python {

struct AsyncRequest {
  nb::object handle;  // kernel, callable or int
  nb::tuple args;
  scheduler::LaunchExtent extent;
};

}  // namespace gpukit::python
