// Bad indices met on the device: a kernel skips the element and writes one word; the next wait raises it.
#pragma once

#include <cstdint>

#include "gpukit/base/device.h"
#include "gpukit/driver/api.h"

namespace gpukit::runtime {

/// Which operation found the bad index; fault.cpp has the names.
enum class FaultOp : int32_t { none = 0, take, gather, scatter, index_get, index_set, grouped_matmul };

/// Page-locked and visible to kernels. The first writer wins (atomicCAS on `op`).
struct FaultWord {
  int32_t op = 0;
  int32_t unused = 0;
  int64_t index = 0;
  int64_t limit = 0;
};

/// The address kernels write to; pass it as a `long long*`-like parameter (see ops/common/fault.cuh).
driver::Address fault_address(Device device);
/// The same word for CPU code.
FaultWord* fault_word(Device device);
/// Records a bad index from CPU code.
void note_fault(FaultWord* word, FaultOp op, int64_t index, int64_t limit);
/// Throws OutOfRangeError for a recorded fault and clears it. Called after every wait.
void raise_fault(Device device);

}  // namespace gpukit::runtime
