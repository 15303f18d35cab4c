// Moves by element width, between copy.cpp, select.cpp and the backends. Operands broadcast to `out`; a null array is
// the scalar; their dtype is out's or has its width.
#pragma once

#include "gpukit/ops/common/map_cpu.h"

namespace gpukit {

namespace cpu {
void move(const Array& out, const ElementInput& a);
/// `cond` has one byte per element.
void select(const Array& out, const Array& cond, const ElementInput& a, const ElementInput& b);
}  // namespace cpu

namespace cuda {
void move(const Array& out, const ElementInput& a);
void select(const Array& out, const Array& cond, const ElementInput& a, const ElementInput& b);
}  // namespace cuda

}  // namespace gpukit
