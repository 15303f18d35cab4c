#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/reduce/reduce_backend.h"

namespace gpukit::cuda {

namespace {

constexpr const char* kSource = "gpukit/ops/reduce/reduce.cuh";
constexpr int kFinish = 4;  // after the forms of ReduceForm

std::vector<std::string> kernel_names(const std::string& op) {
  const std::string argument = "<gpukit::" + op + "<{T}>>";
  return {"gpukit::reduce_rows" + argument, "gpukit::reduce_strided" + argument, "gpukit::reduce_columns" + argument,
          "gpukit::reduce_shifted" + argument, "gpukit::reduce_finish" + argument};
}

using enum DType;
const jit::KernelSet sums(kSource, kernel_names("Sum"),
                          {int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32,
                           float64, complex64, complex128});
const jit::KernelSet products(kSource, kernel_names("Prod"),
                              {int64, float16, bfloat16, float32, float64, complex64, complex128});
const jit::KernelSet maxima(kSource, kernel_names("Max"),
                            {int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32,
                             float64});
const jit::KernelSet indices(kSource, kernel_names("ArgMax"),
                             {int32, int64, uint8, uint64, float16, bfloat16, float32, float64});
const jit::KernelSet flags(kSource, kernel_names("Any"),
                           {uint8, uint16, uint32, uint64, float16, float32, float64, complex64, complex128});
const jit::KernelSet variances(kSource, kernel_names("Variance"), {float16, bfloat16, float32, float64});

const jit::KernelSet& kernels(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return sums;
    case ReduceOp::prod: return products;
    case ReduceOp::max:
    case ReduceOp::min: return maxima;
    case ReduceOp::argmax:
    case ReduceOp::argmin: return indices;
    case ReduceOp::any:
    case ReduceOp::all: return flags;
    default: return variances;
  }
}

/// The instance that serves `dtype` on the same bytes.
DType instance(ReduceOp op, DType dtype) {
  if (dtype == boolean) return uint8;
  if (op == ReduceOp::prod && dtype == uint64) return int64;
  if (op != ReduceOp::any && op != ReduceOp::all) return dtype;
  switch (dtype) {
    case int8: return uint8;
    case int16: return uint16;
    case int32: return uint32;
    case int64: return uint64;
    case bfloat16: return float16;
    default: return dtype;
  }
}

}  // namespace

DType reduce_dtype(ReduceOp op, DType dtype) {
  const bool exact = is_integer(dtype) || dtype == boolean;
  if (!exact) return dtype;
  switch (op) {
    case ReduceOp::prod: return is_unsigned_integer(dtype) ? uint64 : int64;
    case ReduceOp::var:
    case ReduceOp::std: return float64;
    case ReduceOp::argmax:
    case ReduceOp::argmin:
      if (dtype == int8 || dtype == int16 || dtype == uint16) return int32;
      return dtype == uint32 ? int64 : dtype;
    default: return dtype;
  }
}

void reduce(ReduceOp op, const Array& out, const Array& a, const ReduceLayout& layout, double correction) {
  const Device device = a.device();
  const int accumulator = accumulator_bytes(op, a.dtype());
  const bool aligned = is_aligned(a);
  const int sm_count = a.context().properties().sm_count;
  ReducePlan plan = plan_reduce(layout, itemsize(a.dtype()), accumulator, aligned, sm_count);
  ReduceParams& p = plan.params;
  static_assert(runtime::kCounterBytes == kCounterOffset);
  Temporaries temporaries(op_name(op));
  Array partials;
  if (p.last_block)
    partials = counted_workspace(op_name(op), device).narrow(0, kCounterOffset, plan.partials_bytes);
  else if (plan.partials_bytes != 0)
    partials = temporaries.empty({plan.partials_bytes}, uint8, device);
  p.flip = op == ReduceOp::min || op == ReduceOp::argmin || op == ReduceOp::all;
  p.mean = op == ReduceOp::mean || op == ReduceOp::std;
  p.correction = correction;

  const jit::KernelSet& set = kernels(op);
  const DType dtype = instance(op, a.dtype());
  const jit::LaunchConfig config{.grid_x = plan.grid, .block_x = plan.block, .shared_bytes = plan.shared_bytes};
  jit::launch(set.get(static_cast<int>(plan.form), dtype), device, config, write(out), read(a), write_if(partials), p);
  if (plan.finish_grid == 0) return;
  const jit::LaunchConfig finish{.grid_x = plan.finish_grid, .block_x = kReduceThreads};
  jit::launch(set.get(kFinish, dtype), device, finish, write(out), read(partials), p);
}

}  // namespace gpukit::cuda
