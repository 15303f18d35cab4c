#include "gpukit/ops/indexing/nonzero.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/indexing/indexed_space.cuh"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit {

Array nonzero_coordinates(const Array& x) {
  if (x.ndim() == 0) throw ShapeError("nonzero", "x", "have at least one dimension", "a 0-d array");
  runtime::refuse_in_capture("nonzero", "waits for the device (the size of its result depends on the data)");
  if (x.size() == 0) return Array::empty({x.ndim(), 0}, DType::int64, x.device());
  const Array flags = contiguous(astype(x, DType::boolean));
  const int64_t num_blocks = (flags.size() + kFlagsPerBlock - 1) / kFlagsPerBlock;
  // Per block: how many true elements lie before it; last, how many there are.
  const Array counts = Array::empty({num_blocks + 1}, DType::int64, x.device());
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::count_flags(counts, flags); break;
    case DeviceKind::cuda: cuda::count_flags(counts, flags); break;
  }
  int64_t num_true = 0;
  runtime::copy_to_host(&num_true, read(counts.select(0, num_blocks)), sizeof(num_true), "nonzero");
  Array coordinates = Array::empty({x.ndim(), num_true}, DType::int64, x.device());
  if (num_true == 0) return coordinates;
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::write_coordinates(coordinates, flags, counts); break;
    case DeviceKind::cuda: cuda::write_coordinates(coordinates, flags, counts); break;
  }
  return coordinates;
}

std::vector<Array> nonzero(const Array& x) {
  const Array coordinates = nonzero_coordinates(x);
  std::vector<Array> axes;
  for (int axis = 0; axis < x.ndim(); ++axis) axes.push_back(coordinates.select(0, axis));
  return axes;
}

Array argwhere(const Array& x) {
  if (x.ndim() == 0) {
    const Array found = nonzero_coordinates(x.expand_dims(0));
    return Array::empty({found.shape(1), 0}, DType::int64, x.device());
  }
  return contiguous(nonzero_coordinates(x).transpose());
}

Array compress(const Array& condition, const Array& x, std::optional<int64_t> axis) {
  check_ndim("compress", "condition", condition, 1);
  check_same_device("compress", x, condition);
  return take(x, nonzero_coordinates(condition).select(0, 0), axis);
}

}  // namespace gpukit
