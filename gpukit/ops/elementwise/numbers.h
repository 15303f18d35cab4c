// Rounding to decimals, and numbers in place of NaN and infinity. Built from other operations.
#pragma once

#include <optional>

#include "gpukit/array/array.h"

namespace gpukit {

/// To `decimals` places after the point, halves to the even digit; negative ones count before the point. Integers keep
/// their dtype, and are copied unless `decimals` is negative.
Array round(const Array& x, int64_t decimals, const Array* out = nullptr);

/// NaN becomes `nan`; the infinities become `posinf` and `neginf`, by default the largest and smallest number of the
/// dtype. Real dtypes.
Array nan_to_num(const Array& x, double nan = 0, std::optional<double> posinf = {}, std::optional<double> neginf = {});

}  // namespace gpukit
