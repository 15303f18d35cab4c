// Between binary.cpp and its backends: operands are checked, of one dtype, and broadcast to `out`.
#pragma once

#include "gpukit/ops/common/map.h"
#include "gpukit/ops/common/map_cpu.h"
#include "gpukit/ops/elementwise/codes.cuh"

namespace gpukit {

namespace cpu {
/// `dtype` is that of the inputs.
void binary(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
// Its parts, apart for the compiler's sake.
void binary_integer(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
void binary_real(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
void binary_compare(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
void binary_bitwise(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
void binary_division(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
/// Floats: false for a function that is not its.
bool binary_math(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
/// complex_math.cuh's.
void complex_power(const Array& out, const ElementInput& a, const ElementInput& b);
}  // namespace cpu

namespace cuda {
/// The kernels of one function; their `cost` must be the contiguous kernel's kCost.
MapKernels binary_kernels(BinaryOp op, DType dtype);
void binary(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b);
void complex_power(const Array& out, const ElementInput& a, const ElementInput& b);
}  // namespace cuda

}  // namespace gpukit
