// Between unary.cpp and its backends: `a` is checked and has out's shape.
#pragma once

#include "gpukit/ops/common/map.h"
#include "gpukit/ops/common/map_cpu.h"
#include "gpukit/ops/elementwise/codes.cuh"

namespace gpukit {

namespace cpu {
void unary(UnaryOp op, const Array& out, const Array& a);
/// Its part for exp to cosh, apart for the compiler's sake.
void unary_math(UnaryOp op, const Array& out, const Array& a);
void clamp(const Array& out, const Array& a, const ElementBytes& low, const ElementBytes& high);
/// Functions of complex_math.cuh.
void complex_unary(UnaryOp op, const Array& out, const Array& a);
}  // namespace cpu

namespace cuda {
/// The kernels of one function; their `cost` must be the contiguous kernel's kCost.
MapKernels unary_kernels(UnaryOp op, DType dtype);
void unary(UnaryOp op, const Array& out, const Array& a);
void clamp(const Array& out, const Array& a, const ElementBytes& low, const ElementBytes& high);
void complex_unary(UnaryOp op, const Array& out, const Array& a);
}  // namespace cuda

}  // namespace gpukit
