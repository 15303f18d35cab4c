#include <algorithm>

#include "gpukit/base/env_attention.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/attention/attention_impl.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {

namespace {

const jit::KernelSet kernels("gpukit/ops/attention/attention.cuh",
                             {"gpukit::attention<{T}, 64>", "gpukit::attention<{T}, 128>",
                              "gpukit::attention<{T}, 256>", "gpukit::attention_merge<{T}>"},
                             {DType::float16, DType::bfloat16, DType::float32});

constexpr int64_t kFewBlocks = 264;                       // less than two for every multiprocessor of a large chip
constexpr int64_t kMostPieceElements = int64_t{1} << 26;  // of the sums of pieces

int kernel_of(int dim) { return dim <= 64 ? 0 : dim <= 128 ? 1 : 2; }
int padded_dim(int kernel) { return 64 << kernel; }

unsigned shared_bytes(int kernel) {
  constexpr size_t kBytes[] = {sizeof(AttentionShared<64>), sizeof(AttentionShared<128>), sizeof(AttentionShared<256>)};
  return static_cast<unsigned>(kBytes[kernel]);
}

struct Plan {
  AttentionGrid grid{};
  int64_t blocks_x = 0, blocks_y = 0;
};

Plan plan(const AttentionParams& p) {
  Plan plan;
  AttentionGrid& g = plan.grid;
  g.chunks = static_cast<int32_t>(ceil_div(p.group, kQueryRows));
  g.heads = static_cast<int32_t>(ceil_div(p.group, g.chunks));
  g.tokens = kQueryRows / g.heads;
  const int64_t pieces = ceil_div(p.cache.max_pages * p.cache.page_size, kKeyPiece);
  plan.blocks_x = ceil_div(p.tokens, g.tokens);
  plan.blocks_y = int64_t{p.heads / p.group} * g.chunks;
  const int64_t blocks = plan.blocks_x * plan.blocks_y;
  const bool fits = pieces <= 65535 && p.tokens * p.heads * pieces * (p.dim + 2) <= kMostPieceElements;
  const bool pays = pieces > 1 && blocks < kFewBlocks;
  g.split = fits && env::flash_decoding().value_or(pays) ? 1 : 0;
  g.pieces = g.split != 0 ? static_cast<int32_t>(pieces) : 1;
  return plan;
}

}  // namespace

void attention(const AttentionCall& c) {
  const AttentionParams& p = c.params;
  const Plan chosen = plan(p);
  const AttentionGrid& g = chosen.grid;
  const int kernel = kernel_of(p.dim);
  const Device device = c.out.device();
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(chosen.blocks_x),
                                 .grid_y = static_cast<unsigned>(chosen.blocks_y),
                                 .grid_z = static_cast<unsigned>(g.pieces),
                                 .block_x = kAttentionThreads,
                                 .shared_bytes = shared_bytes(kernel)};
  Temporaries temporaries(c.op);
  Array pieces;
  if (g.split != 0) pieces = temporaries.empty({p.tokens * p.heads * g.pieces * (p.dim + 2)}, DType::float32, device);
  jit::launch(kernels.get(kernel, c.q.dtype()), device, config, write(c.out), write_if(c.lse), write_if(pieces),
              read(c.q), read(c.cache.k), read(c.cache.v), read_if(c.cache.k_scale), read_if(c.cache.v_scale),
              read_if(c.cache.block_tables), read_if(c.first), read_if(c.second), read_if(c.mask), read_if(c.slopes),
              runtime::fault_address(device), p, g);
  if (g.split == 0) return;
  const jit::LaunchConfig merge{.grid_x = static_cast<unsigned>(std::min<int64_t>(p.tokens * p.heads, 0x7fffffff)),
                                .block_x = 64};
  jit::launch(kernels.get(3, c.q.dtype()), device, merge, write(c.out), write_if(c.lse), read(pieces), read_if(c.first),
              read_if(c.second), p, g);
}

std::string explain_attention(const AttentionCall& call) {
  const Plan chosen = plan(call.params);
  std::string text = "attention, padded to " + std::to_string(padded_dim(kernel_of(call.params.dim))) +
                     " dims: blocks of " + std::to_string(chosen.grid.tokens) + " tokens by " +
                     std::to_string(chosen.grid.heads) + " heads, float32 sums without tensor cores";
  if (chosen.grid.split != 0)
    text += "; keys in " + std::to_string(chosen.grid.pieces) + " pieces, merged by attention_merge";
  return text + " (gpukit/ops/attention/attention.cuh)";
}

}  // namespace gpukit::cuda
