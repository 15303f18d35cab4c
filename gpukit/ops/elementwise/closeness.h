// Whether arrays are equal, or nearly so.
#pragma once

#include "gpukit/ops/common/operand.h"

namespace gpukit {

/// |a - b| <= atol + rtol |b|, as bool. Equal infinities are close; NaN is close to nothing, or to NaN where
/// `equal_nan`. Integers and bool count as float64.
Array isclose(const Array& a, const Operand& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);

}  // namespace gpukit
