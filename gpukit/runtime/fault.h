// Bad indices met on the device: a kernel skips the element and writes one word; the next wait raises it.
#pragma once

#include <cstdint>

#include "gpukit/base/device.h"
#include "gpukit/driver/api.h"

namespace gpukit::runtime {

/// Page-locked and visible to kernels. The first writer wins (atomicCAS on `op`).
struct FaultWord {
  int32_t op = 0;  // a fault_code; 0: no fault
  int32_t unused = 0;
  int64_t index = 0;
  int64_t limit = 0;
};

/// The number that stands for an operation's name in a fault word: at least 1 and the same for equal names. `op` must
/// live as long as the process. Takes no lock.
int32_t fault_code(const char* op) noexcept;
/// The name behind a code; "index" for a number that stands for none.
const char* fault_name(int32_t code) noexcept;

/// The address kernels write to; pass it as a `long long*`-like parameter (see ops/common/fault.cuh).
driver::Address fault_address(Device device);
/// The same word for CPU code.
FaultWord* fault_word(Device device);
/// Records a bad index from CPU code; `op` is a fault_code.
void note_fault(FaultWord* word, int32_t op, int64_t index, int64_t limit);
/// Throws OutOfRangeError for a recorded fault and clears it. Called after every wait.
void raise_fault(Device device);

}  // namespace gpukit::runtime
