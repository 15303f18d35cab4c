// Memory for what an operation makes and uses up within one call, inside of a graph capture too.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// `bytes` of the pool, uint8, uninitialised, at a multiple of 256 bytes; ordered on the current stream and free again
/// when the array and the work that uses it are gone. In a capture the memory is the graph's, as long as it lives: the
/// calls of one capture that follow each other on a stream are given the same, so what one leaves is gone with the
/// next. Throws OutOfMemoryError.
Array call_room(int64_t bytes, Device device);

}  // namespace gpukit
