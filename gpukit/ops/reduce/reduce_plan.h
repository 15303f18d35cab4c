// How a reduction is laid out and split. Pure functions of shapes and strides: nothing here touches a device.
#pragma once

#include <cstdint>

#include "gpukit/base/dims.h"
#include "gpukit/base/dtype.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/reduce/reduce_params.cuh"

namespace gpukit {

enum class ReduceOp : uint8_t { sum, mean, prod, max, min, argmax, argmin, any, all, var, std };
const char* op_name(ReduceOp op);

struct ReduceAxis {
  int64_t size = 1, in = 0, out = 0;  // element strides of input and output; out is 0 for reduced axes
};

/// Axes of size 1 dropped, neighbours merged; at least one axis each, of size 1 when there is none.
/// `kept` has the one that is fastest in the input last; `reduced` is in the order of the tree.
struct ReduceLayout {
  int64_t outputs = 1, length = 1;
  int kept_rank = 0, reduced_rank = 0;
  ReduceAxis kept[kMaxRank], reduced[kMaxRank];
};

/// `reduced` is a bit per axis of `shape`. `out_strides` has an entry per axis of `shape`. With `keep_order` reduced
/// axes stay in the array's own order, else they go by memory.
ReduceLayout reduce_layout(const Dims& shape, const Dims& in_strides, uint32_t reduced, const Dims& out_strides,
                           bool keep_order);

/// shifted: contiguous rows that start or end within 16 bytes.
enum class ReduceForm : uint8_t { rows, strided, columns, shifted };

struct ReducePlan {
  ReduceForm form = ReduceForm::strided;
  unsigned grid = 1, block = kReduceThreads, shared_bytes = 0;
  unsigned finish_grid = 0;  // 0: one kernel does it all
  int64_t partials_bytes = 0;
  ReduceParams params{};
};

/// The most that partial results take. The same whatever memory is left: a plan follows from shapes and strides.
inline constexpr int64_t kMaxPartialsBytes = 64 << 20;

/// `aligned`: the input's first element lies at a multiple of 16 bytes. outputs and length are at least 1. `sm_count`
/// decides how many blocks share the work, never the order of the tree.
ReducePlan plan_reduce(const ReduceLayout& layout, int element_bytes, int accumulator_bytes, bool aligned,
                       int sm_count);

/// Bytes of the accumulator the kernels use.
int accumulator_bytes(ReduceOp op, DType dtype);

}  // namespace gpukit
