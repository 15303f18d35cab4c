// Running a copy op into `out` or a fresh array.
#pragma once

#include <span>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

/// Runs `write(target)` on `out`, on a fresh array without one, or on a temporary copied to `out` when an input shares
/// memory with it.
template <typename F>
Array write_result(const char* op, const Array* out, const Dims& shape, DType dtype, std::span<const Array> inputs,
                   F&& write) {
  const Array target = result(op, out, shape, dtype, inputs[0].device());
  bool shared = false;
  if (out != nullptr)
    for (const Array& input : inputs) shared = shared || may_share_memory(input, target);
  if (!shared) {
    write(target);
    return target;
  }
  Temporaries temporaries(op);
  const Array fresh = temporaries.empty(shape, dtype, target.device());
  write(fresh);
  copy_into(target, fresh);
  return target;
}

}  // namespace gpukit
