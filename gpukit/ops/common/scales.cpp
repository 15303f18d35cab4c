#include "gpukit/ops/common/scales.h"

#include <string>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"

namespace gpukit {
namespace {

constexpr int kNone = -1;

/// The power of two, of those that are usual, that cuts `size` into `count` blocks.
int shift_for(int64_t size, int64_t count, std::initializer_list<int> shifts) {
  if (count == 1) return 0;  // with a stride of 0
  for (int shift : shifts)
    if (ceil_div(size, int64_t{1} << shift) == count) return shift;
  return kNone;
}

}  // namespace

Code code_of(const char* op, const char* argument, DType dtype) {
  switch (dtype) {
    case DType::float32: return Code::float32;
    case DType::float16: return Code::float16;
    case DType::bfloat16: return Code::bfloat16;
    case DType::int32: return Code::int32;
    case DType::float8_e4m3: return Code::float8_e4m3;
    case DType::float8_e5m2: return Code::float8_e5m2;
    case DType::int8: return Code::int8;
    case DType::int4: return Code::int4;
    case DType::float4_e2m1: return Code::float4_e2m1;
    default:
      unsupported_dtype(op, argument, dtype,
                        "be float16, bfloat16, float32, float8_e4m3, float8_e5m2, int8, int4 or float4_e2m1");
  }
}

ScaleLayout scale_layout(const char* op, const char* argument, const Array& scale, const CodeShape& shape,
                         bool batched) {
  ScaleLayout layout = {};
  if (scale.size() == 1) return layout;
  const Array full = scale.ndim() == 1 ? scale.expand_dims(1) : scale;
  const int lead = batched ? 1 : 0;
  if (full.ndim() == lead + 2 && (!batched || full.shape(0) == shape.batches)) {
    layout.row_shift = shift_for(shape.rows, full.shape(lead), {0, 7});
    layout.column_shift = shift_for(shape.columns, full.shape(lead + 1), {7, 6, 5, 4});
    if (batched) layout.batch = full.strides()[0];
    layout.row = full.shape(lead) == 1 ? 0 : full.strides()[lead];
    layout.column = full.shape(lead + 1) == 1 ? 0 : full.strides()[lead + 1];
    if (layout.row_shift != kNone && layout.column_shift != kNone) return layout;
  }
  const std::string rows = std::to_string(shape.rows), columns = std::to_string(shape.columns);
  const std::string batches = batched ? std::to_string(shape.batches) + ", " : "";
  throw ShapeError(op, argument,
                   "be one number, one a row ([" + batches + rows + ", 1]) or one a block ([" + batches + "ceil(" +
                       rows + " / r), ceil(" + columns + " / c)] with r 1 or 128 and c 16, 32, 64 or 128)",
                   scale.shape().str());
}

}  // namespace gpukit
