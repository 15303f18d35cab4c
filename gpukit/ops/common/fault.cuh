// A bad index met in a kernel: skip the element, note the first one; the host raises it at its next wait.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// Layout of runtime::FaultWord.
struct Fault {
  int32_t op;
  int32_t unused;
  int64_t index;
  int64_t limit;
};

GPUKIT_DEVICE void note_fault(Fault* fault, int32_t op, int64_t index, int64_t limit) {
  if (atomicCAS_system(&fault->op, 0, op) == 0) {
    fault->index = index;
    fault->limit = limit;
  }
}

}  // namespace gpukit
