#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/moe/moe_impl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {
namespace {

using enum DType;
enum TypedKernel { kRoute, kCombine };
const jit::KernelSet typed("gpukit/ops/moe/moe.cuh", {"gpukit::moe_route<{T}>", "gpukit::moe_combine<{T}>"},
                           {float16, bfloat16, float32});
enum PlainKernel { kCount, kStart, kPlace, kExpand };
const jit::KernelSet plain("gpukit/ops/moe/moe_order.cuh", {"gpukit::moe_count_experts", "gpukit::moe_start_experts",
                                                            "gpukit::moe_place_rows", "gpukit::moe_expand_offsets"});

constexpr unsigned kBlock = 256;
constexpr int64_t kMaxGrid = 0x7fffffff;
constexpr int64_t kChunkRows = 256, kMostChunks = 512;  // of a counting sort

unsigned blocks(int64_t count, int64_t per_block) {
  return static_cast<unsigned>(std::min(ceil_div(count, per_block), kMaxGrid));
}

}  // namespace

void route(const Route& r) {
  const unsigned grid = blocks(r.space.tokens, kBlock / 32);
  jit::launch(typed.get(kRoute, r.logits.dtype()), r.logits.device(),
              {.grid_x = grid, .block_x = kBlock, .overlaps = may_start_early(r.logits, grid)}, write(r.indices),
              write_if(r.values), write_if(r.gates), read(r.logits), read_if(r.ids), r.space);
}

void combine(const Combine& c) {
  const int64_t tokens = c.out.shape()[0], columns = blocks(c.space.width, kBlock);
  jit::launch(typed.get(kCombine, c.out.dtype()), c.out.device(),
              {.grid_x = blocks(tokens, 1),
               .grid_y = static_cast<unsigned>(columns),
               .block_x = kBlock,
               .overlaps = may_start_early(c.out, tokens * columns)},
              write(c.out), read(c.rows), read(c.weights), read_if(c.reverse), read_if(c.shared),
              read_if(c.shared_gate), read_if(c.ids), runtime::fault_address(c.out.device()), c.space);
}

void order_by_expert(const Permutation& p) {
  constexpr const char* kOp = "moe_compute_permutation";
  const Device device = p.ids.device();
  OrderSpace s{};
  s.rows = p.ids.size();
  s.chunk_rows = std::max(kChunkRows, 32 * ceil_div(s.rows, 32 * kMostChunks));
  s.chunks = ceil_div(s.rows, s.chunk_rows);
  s.experts = static_cast<int32_t>(p.counts.size());
  s.fault_op = runtime::fault_code(kOp);
  Temporaries temporaries(kOp);
  const Array lines = temporaries.empty({s.chunks, s.experts + int64_t{1}}, int32, device);
  const jit::LaunchConfig warps{.grid_x = std::max(1u, blocks(s.chunks, kBlock / 32)), .block_x = kBlock};
  jit::launch(plain.get(kCount), device, warps, write(lines), read(p.ids), runtime::fault_address(device), s);
  jit::launch(plain.get(kStart), device, {.grid_x = 1, .block_x = 1024}, write(p.counts), write(p.offsets),
              write(lines), s);
  jit::launch(plain.get(kPlace), device, warps, write(p.permute), write(p.reverse), write(lines), read(p.offsets),
              read(p.ids), s);
}

void expand_offsets(const Array& offsets, const Array& ids) {
  jit::launch(plain.get(kExpand), ids.device(), {.grid_x = blocks(ids.size(), kBlock), .block_x = kBlock}, write(ids),
              read(offsets), ids.size(), static_cast<int32_t>(offsets.size()));
}

}  // namespace gpukit::cuda
