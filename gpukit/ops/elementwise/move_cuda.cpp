#include "gpukit/jit/kernel.h"
#include "gpukit/ops/common/map.h"
#include "gpukit/ops/elementwise/move_impl.h"

namespace gpukit::cuda {

namespace {

/// One dtype for each width; complex128 stands for 16 bytes.
const jit::KernelSet kernels("gpukit/ops/elementwise/move.cuh",
                             {"gpukit::map1<gpukit::Move<{T}>>", "gpukit::map1_strided<gpukit::Move<{T}>>",
                              "gpukit::map3<gpukit::Select<{T}>>", "gpukit::map3_strided<gpukit::Select<{T}>>"},
                             {DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::complex128});

DType of_width(DType dtype) {
  switch (itemsize(dtype)) {
    case 1: return DType::uint8;
    case 2: return DType::uint16;
    case 4: return DType::uint32;
    case 8: return DType::uint64;
    default: return DType::complex128;
  }
}

}  // namespace

void move(const Array& out, const ElementInput& a) {
  const DType width = of_width(out.dtype());
  MapArgs args = {};
  if (a.array == nullptr) set_scalar(args, 0, a.scalar);
  launch_map({kernels.get(0, width), kernels.get(1, width)}, out, a.array, args);
}

void select(const Array& out, const Array& cond, const ElementInput& a, const ElementInput& b) {
  const DType width = of_width(out.dtype());
  MapArgs args = {};
  if (a.array == nullptr) set_scalar(args, 1, a.scalar);
  if (b.array == nullptr) set_scalar(args, 2, b.scalar);
  launch_map({kernels.get(2, width), kernels.get(3, width)}, out, &cond, a.array, b.array, args);
}

}  // namespace gpukit::cuda
