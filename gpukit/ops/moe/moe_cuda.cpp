#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/moe/moe_impl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {
namespace {

using enum DType;
enum TypedKernel { kRoute, kCombine };
const jit::KernelSet typed("gpukit/ops/moe/moe.cuh", {"gpukit::moe_route<{T}>", "gpukit::moe_combine<{T}>"},
                           {float16, bfloat16, float32});
enum PlainKernel { kOrder, kExpand };
const jit::KernelSet plain("gpukit/ops/moe/moe_order.cuh",
                           {"gpukit::moe_order_by_expert", "gpukit::moe_expand_offsets"});

constexpr unsigned kBlock = 256;
constexpr int64_t kMaxGrid = 0x7fffffff;

unsigned blocks(int64_t count, int64_t per_block) {
  return static_cast<unsigned>(std::min(ceil_div(count, per_block), kMaxGrid));
}

}  // namespace

void route(const Route& r) {
  jit::launch(typed.get(kRoute, r.logits.dtype()), r.logits.device(),
              {.grid_x = blocks(r.space.tokens, kBlock / 32), .block_x = kBlock}, write(r.indices), write_if(r.values),
              write_if(r.gates), read(r.logits), read_if(r.ids), r.space);
}

void combine(const Combine& c) {
  jit::launch(typed.get(kCombine, c.out.dtype()), c.out.device(),
              {.grid_x = blocks(c.out.shape()[0], 1), .grid_y = blocks(c.space.width, kBlock), .block_x = kBlock},
              write(c.out), read(c.rows), read(c.weights), read_if(c.reverse), read_if(c.shared),
              read_if(c.shared_gate), read_if(c.ids), runtime::fault_address(c.out.device()), c.space);
}

void order_by_expert(const Permutation& p) {
  jit::launch(plain.get(kOrder), p.ids.device(), {.grid_x = 1, .block_x = 1024}, write(p.counts), write(p.offsets),
              write(p.permute), write(p.reverse), read(p.ids), p.ids.size(), static_cast<int32_t>(p.counts.size()),
              runtime::fault_address(p.ids.device()), runtime::fault_code("moe_compute_permutation"));
}

void expand_offsets(const Array& offsets, const Array& ids) {
  jit::launch(plain.get(kExpand), ids.device(), {.grid_x = blocks(ids.size(), kBlock), .block_x = kBlock}, write(ids),
              read(offsets), ids.size(), static_cast<int32_t>(offsets.size()));
}

}  // namespace gpukit::cuda
