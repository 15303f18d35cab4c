#include "gpukit/ops/hopper/tensor_map.h"

#include "gpukit/ops/common/rounding.h"

namespace gpukit {

driver::BoxLayout row_boxes(DType dtype, int64_t length, int64_t rows, int64_t stride, int width, int height) {
  constexpr int64_t kGranuleBytes = 16;
  const int64_t bytes = itemsize(dtype);
  driver::BoxLayout l;
  l.dtype = dtype;
  l.shape[0] = length;
  l.shape[1] = rows;
  l.strides[0] = l.strides[1] = rows == 1 ? ceil_div(length * bytes, kGranuleBytes) * kGranuleBytes : stride * bytes;
  l.box[0] = width;
  l.box[1] = height;
  l.swizzle = driver::BoxLayout::Swizzle::bytes128;
  return l;
}

}  // namespace gpukit
