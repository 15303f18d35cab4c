// How the copy engine of sm_90 and later moves rows.
#pragma once

#include <cstdint>

#include "gpukit/driver/api.h"

namespace gpukit {

/// `rows` of `length` dense elements, `stride` elements apart, in boxes of `height` rows by `width` elements, which are
/// 128 bytes and swizzled. A row alone may have any stride.
driver::BoxLayout row_boxes(DType dtype, int64_t length, int64_t rows, int64_t stride, int width, int height);

}  // namespace gpukit
