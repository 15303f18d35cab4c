#include "gpukit/ops/matmul/pack.h"

#include <algorithm>

#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {
namespace {

constexpr int64_t kRowBytes = 16;  // what the copy engine and vector loads take

}  // namespace

bool is_packed_rows(const Array& x) {
  if (!is_aligned(x)) return false;
  const int last = x.ndim() - 1;
  if (last < 0 || x.size() == 0 || x.shape()[last] == 1) return x.is_contiguous();
  if (x.strides()[last] != 1) return false;
  for (int axis = 0; axis < last; ++axis)
    if (x.shape()[axis] > 1 && (x.strides()[axis] <= 0 || x.strides()[axis] * itemsize(x.dtype()) % kRowBytes != 0))
      return false;
  return true;
}

Array pack(const Array& x) {
  if (is_packed_rows(x)) return x;
  const int last = x.ndim() - 1;
  if (x.size() == 0 || last <= 0 || x.shape()[last] == 1) return copy(x);
  Dims padded = x.shape();
  const int64_t step = std::max<int64_t>(kRowBytes / itemsize(x.dtype()), 1), row = padded[last];
  padded[last] = (row + step - 1) / step * step;
  const Array rows = Array::empty(padded, x.dtype(), x.device()).narrow(last, 0, row);
  copy_into(rows, x);
  return rows;
}

}  // namespace gpukit
