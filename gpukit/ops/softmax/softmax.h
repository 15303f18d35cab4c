// softmax along one axis.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// exp(x - max(x)) / sum(exp(x - max(x))) along `axis`, for arrays of any rank above 0 and any strides. Float dtypes;
/// 16-bit floats are computed in float32. A row's result depends on that row alone: its sum follows the tree of
/// ops/reduce. A row with a NaN or with no finite maximum becomes NaN. `out` may be `input`. Throws DTypeError,
/// ShapeError (0-d), OutOfRangeError (axis).
Array softmax(const Array& input, int64_t axis = -1, const Array* out = nullptr);

namespace cpu {
void softmax(const Array& out, const Array& input, int axis);
}
namespace cuda {
void softmax(const Array& out, const Array& input, int axis);
}

}  // namespace gpukit
