// Scales of blocks of an array: which block a shape of scales means.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/common/quant.cuh"

namespace gpukit {

/// The code of a dtype. Throws DTypeError naming op and argument for a dtype without one.
Code code_of(const char* op, const char* argument, DType dtype);

/// Numbers in an array of codes: [batches, rows, columns]. Leading axes must be one or none, or merge without a copy.
struct CodeShape {
  int64_t batches = 1, rows = 1, columns = 1;
};

/// The layout of `scale` for an array of `shape` whose batches are `batched` axes (0 or 1) of it. One number serves the
/// whole array. Otherwise its last two axes count blocks: of 1 row, 128 rows or all of them, by 16, 32, 64, 128 columns
/// or all of them; a 1-D scale has one number per row. Throws ShapeError naming op and argument.
ScaleLayout scale_layout(const char* op, const char* argument, const Array& scale, const CodeShape& shape,
                         bool batched);

}  // namespace gpukit
