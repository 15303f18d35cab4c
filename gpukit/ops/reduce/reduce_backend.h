// What reduce.cpp hands to the backends: checked arguments, a layout with at least one element.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/reduce/reduce_plan.h"

namespace gpukit {

/// Running sums along one axis of `length` elements, `rows` of them. Strides in elements; in and out have the same
/// axes.
struct ScanLayout {
  int64_t rows = 1, length = 1;
  int64_t in = 1, out = 1;  // along the scanned axis
  int rank = 0;             // of the other axes
  ReduceAxis other[kMaxRank];
};

namespace cpu {
void reduce(ReduceOp op, const Array& out, const Array& a, const ReduceLayout& layout, double correction);
/// Running sums or products.
void scan(ReduceOp op, const Array& out, const Array& a, const ScanLayout& layout);
}  // namespace cpu
namespace cuda {
/// The dtype `a` must have before reduce: narrow integers of rare operations share a kernel.
DType reduce_dtype(ReduceOp op, DType dtype);
void reduce(ReduceOp op, const Array& out, const Array& a, const ReduceLayout& layout, double correction);
/// Running sums or products.
void scan(ReduceOp op, const Array& out, const Array& a, const ScanLayout& layout);
}  // namespace cuda

}  // namespace gpukit
