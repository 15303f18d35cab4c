#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/map.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/trace.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/binary_impl.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/move_impl.h"
#include "gpukit/ops/elementwise/unary_impl.h"

namespace gpukit::cuda {

namespace {

constexpr const char* kSource = "gpukit/ops/elementwise/complex.cuh";
const jit::KernelSet kernels(kSource, {"gpukit::complex_map<{T}>", "gpukit::complex_powers<{T}>"},
                             {DType::complex64, DType::complex128});

jit::LaunchConfig each_of(const Array& out) {
  return {.grid_x = static_cast<unsigned>(ceil_div(out.size(), 256)), .block_x = 256};
}

/// The operand as a row-major array of out's shape.
Array spread(const ElementInput& x, const Array& out, Temporaries& into) {
  if (x.array != nullptr && x.array->shape() == out.shape()) return contiguous(*x.array, into);
  const Array all = into.empty_like(out);
  move(all, x);
  return all;
}

/// Computes into `out`, or beside it where it is not row-major.
template <typename F>
void into_dense(const Array& out, Temporaries& temporaries, F&& compute) {
  const Array dense = out.is_contiguous() ? out : temporaries.empty_like(out);
  compute(dense);
  if (!out.is_contiguous()) copy_into(out, dense);
}

}  // namespace

void complex_unary(UnaryOp op, const Array& out, const Array& a) {
  if (Trace* trace = current_trace()) [[unlikely]] {
    MapArgs args = {};
    args.code = static_cast<int32_t>(op);
    return trace->add(out, {&a}, std::string("gpukit::ComplexFunction<") + kernel_type(out.dtype()) + ">", kSource,
                      args, true);
  }
  if (out.size() == 0) return;
  Temporaries temporaries("complex function");
  const Array from = contiguous(a, temporaries);
  into_dense(out, temporaries, [&](const Array& dense) {
    jit::launch(kernels.get(0, out.dtype()), out.device(), each_of(out), write(dense), read(from),
                static_cast<int32_t>(op), out.size());
  });
}

void complex_power(const Array& out, const ElementInput& a, const ElementInput& b) {
  if (Trace* trace = current_trace()) [[unlikely]] {
    MapArgs args = {};
    if (a.array == nullptr) set_scalar(args, 0, a.scalar);
    if (b.array == nullptr) set_scalar(args, 1, b.scalar);
    return trace->add(out, {a.array, b.array}, std::string("gpukit::ComplexPower<") + kernel_type(out.dtype()) + ">",
                      kSource, args, true);
  }
  if (out.size() == 0) return;
  Temporaries temporaries("power");
  const Array base = spread(a, out, temporaries), exponent = spread(b, out, temporaries);
  into_dense(out, temporaries, [&](const Array& dense) {
    jit::launch(kernels.get(1, out.dtype()), out.device(), each_of(out), write(dense), read(base), read(exponent),
                out.size());
  });
}

}  // namespace gpukit::cuda
