// Choice between two arrays.
#pragma once

#include "gpukit/ops/common/operand.h"

namespace gpukit {

/// a where cond is not 0, else b. cond has any arithmetic dtype; a and b are arrays or numbers, broadcast together with
/// cond and promoted. `out` must have the result's shape and dtype. Throws ShapeError, DTypeError, DeviceError.
Array where(const Array& cond, const Operand& a, const Operand& b, const Array* out = nullptr);

}  // namespace gpukit
