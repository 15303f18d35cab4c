#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/reduce/cumsum_plan.h"

namespace gpukit {

ScanPlan plan_scan(const ScanLayout& layout, int accumulator_bytes) {
  constexpr int64_t kManyBlocks = 1024, kFewTiles = 8, kMaxGrid = 0x7fffffff;
  ScanPlan plan;
  ScanParams& p = plan.params;
  p.rows = layout.rows;
  p.length = layout.length;
  p.in = layout.in;
  p.out = layout.out;
  p.rank = layout.rank;
  for (int i = 0; i < layout.rank; ++i) {
    p.other_shape[i] = make_divisor(layout.other[i].size);
    p.other_in[i] = layout.other[i].in;
    p.other_out[i] = layout.other[i].out;
  }
  const int64_t tiles = ceil_div(layout.length, kScanTile);
  int64_t per_segment = ceil_power(tiles);
  auto bytes = [&](int64_t share) { return layout.rows * 2 * ceil_power(ceil_div(tiles, share)) * accumulator_bytes; };
  if (tiles > kFewTiles) {
    while (per_segment > 1 && layout.rows * ceil_div(tiles, per_segment) < kManyBlocks &&
           ceil_div(tiles, per_segment / 2) <= kScanMaxSegments && bytes(per_segment / 2) <= kMaxPartialsBytes)
      per_segment /= 2;
  }
  const int64_t segments = ceil_div(tiles, per_segment);
  p.segments = make_divisor(segments);
  p.segment_tiles = per_segment;
  while ((int64_t{1} << p.levels) < segments) ++p.levels;
  if (segments > 1) plan.pyramid_bytes = bytes(per_segment);
  const int64_t rows_of_block = layout.length <= kScanShort ? kScanThreads / 32 : 1;
  plan.grid = static_cast<unsigned>(std::min(ceil_div(layout.rows, rows_of_block) * segments, kMaxGrid));
  return plan;
}

namespace cuda {

namespace {

using enum DType;
enum ScanKernel { scan_rows, scan_totals, scan_pyramid };

jit::KernelSet scan_kernels(const std::string& op) {
  const std::string types = "<gpukit::" + op + "<{T}>,{T}>";
  return {
      "gpukit/ops/reduce/cumsum.cuh",
      {"gpukit::scan_rows" + types, "gpukit::scan_totals" + types, "gpukit::scan_pyramid" + types},
      {int8, int16, int32, int64, uint8, uint16, uint32, float16, bfloat16, float32, float64, complex64, complex128}};
}
const jit::KernelSet sum_kernels = scan_kernels("Sum"), product_kernels = scan_kernels("Prod");

/// Results wrap, so 64-bit integers of either sign share a kernel; bool holds 0 and 1.
DType instance(DType dtype) { return dtype == boolean ? uint8 : dtype == uint64 ? int64 : dtype; }

}  // namespace

void scan(ReduceOp op, const Array& out, const Array& a, const ScanLayout& layout) {
  const jit::KernelSet& kernels = op == ReduceOp::sum ? sum_kernels : product_kernels;
  const Device device = a.device();
  const int accumulator = accumulator_bytes(ReduceOp::sum, a.dtype());
  const DType dtype = instance(a.dtype());
  const ScanPlan plan = plan_scan(layout, accumulator);
  Temporaries temporaries(op == ReduceOp::sum ? "cumsum" : "cumprod");
  Array pyramid;
  if (plan.pyramid_bytes != 0) pyramid = temporaries.empty({plan.pyramid_bytes}, uint8, device);
  const jit::LaunchConfig config{.grid_x = plan.grid, .block_x = kScanThreads};
  if (pyramid.defined()) {
    const unsigned rows = static_cast<unsigned>(std::min<int64_t>(layout.rows, 1 << 20));
    jit::launch(kernels.get(scan_totals, dtype), device, config, write(pyramid), read(a), plan.params);
    jit::launch(kernels.get(scan_pyramid, dtype), device, {.grid_x = rows, .block_x = kScanThreads}, write(pyramid),
                plan.params);
  }
  jit::launch(kernels.get(scan_rows, dtype), device, config, write(out), read(a), read_if(pyramid), plan.params);
}

}  // namespace cuda

}  // namespace gpukit
