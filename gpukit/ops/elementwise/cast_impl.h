// Between cast.cpp and its backends: dtypes differ and the pair is allowed; `a` broadcasts to `out`.
#pragma once

#include "gpukit/ops/common/map_cpu.h"

namespace gpukit {

namespace cpu {
void cast(const Array& out, const Array& a);
}  // namespace cpu

namespace cuda {
void cast(const Array& out, const Array& a);
}  // namespace cuda

}  // namespace gpukit
