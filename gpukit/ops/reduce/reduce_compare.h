// max, min, argmax, argmin, any and all on the CPU.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/reduce/reduce_plan.h"

namespace gpukit::cpu {

void reduce_compare(ReduceOp op, const Array& out, const Array& a, const ReduceLayout& layout);

}  // namespace gpukit::cpu
