#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "gpukit/base/env_attention.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/attention/attention_cuda.h"
#include "gpukit/ops/attention/attention_sm80_shape.cuh"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {

namespace {

const jit::KernelSet kernels("gpukit/ops/attention/attention.cuh",
                             {"gpukit::attention<{T}, 64>", "gpukit::attention<{T}, 128>",
                              "gpukit::attention<{T}, 256>", "gpukit::attention_merge<{T}>"},
                             {DType::float16, DType::bfloat16, DType::float32});

jit::KernelSet mma_kernel(const char* name) {
  return {"gpukit/ops/attention/attention_sm80.cuh", {name}, {DType::float16, DType::bfloat16}};
}
// By padded dim. Blocks of 64 rows would have too few registers for more dims.
const jit::KernelSet mma_kernels[] = {mma_kernel("gpukit::attention_sm80<{T}, 64, false>"),
                                      mma_kernel("gpukit::attention_sm80<{T}, 128, false>")};
const jit::KernelSet shared_mma_kernels[] = {
    mma_kernel("gpukit::attention_sm80<{T}, 64, true>"), mma_kernel("gpukit::attention_sm80<{T}, 128, true>"),
    mma_kernel("gpukit::attention_sm80<{T}, 192, true>"), mma_kernel("gpukit::attention_sm80<{T}, 256, true>")};
const jit::KernelSet mma_merge_kernels("gpukit/ops/attention/attention_sm80.cuh", {"gpukit::attention_sm80_merge<{T}>"},
                                       {DType::float16, DType::bfloat16});

constexpr int64_t kFewBlocks = 264;  // less than two for every multiprocessor of a large chip

int kernel_of(int dim) { return dim <= 64 ? 0 : dim <= 128 ? 1 : 2; }
int padded_dim(int kernel) { return 64 << kernel; }

unsigned shared_bytes(int kernel) {
  constexpr size_t kBytes[] = {sizeof(AttentionShared<64>), sizeof(AttentionShared<128>), sizeof(AttentionShared<256>)};
  return static_cast<unsigned>(kBytes[kernel]);
}

/// Rows of blocks, and whether blocks take one piece each. Both kernels walk pieces of one size.
struct Division {
  int32_t heads, chunks, tokens, split, pieces;
  int64_t blocks_x, blocks_y;
};

Division divide(const AttentionParams& p, int rows) {
  Division d{};
  d.chunks = static_cast<int32_t>(ceil_div(p.group, rows));
  d.heads = static_cast<int32_t>(ceil_div(p.group, d.chunks));
  d.tokens = rows / d.heads;
  const int64_t pieces = ceil_div(p.cache.max_pages * p.cache.page_size, key_piece(p.dim));
  d.blocks_x = ceil_div(p.tokens, d.tokens);
  d.blocks_y = int64_t{p.heads / p.group} * d.chunks;
  const bool fits = pieces <= 65535 && pieces_fit(p, pieces);
  const bool pays = pieces > 1 && d.blocks_x * d.blocks_y < kFewBlocks;
  d.split = fits && env::flash_decoding().value_or(pays) ? 1 : 0;
  d.pieces = d.split != 0 ? static_cast<int32_t>(pieces) : 1;
  return d;
}

struct MmaPlan {
  MmaGrid grid;
  Division division;
  int kernel, shared_bytes;
};

TileCopy copy_of(const KvCache& cache, const AttentionParams& p) {
  const bool coded = p.cache.kind >= CacheKind::float8_e4m3;
  const int64_t bytes = coded ? 8 : 16;
  if (coded && p.dim % 8 != 0) return TileCopy::elements;
  for (const auto& [a, s] : {std::pair{&cache.k, &p.cache.k}, std::pair{&cache.v, &p.cache.v}})
    if (!is_packed(*a, bytes, {s->page, s->slot, s->head})) return TileCopy::elements;
  return coded ? TileCopy::codes : TileCopy::chunks;
}

/// nullopt: the plain kernel serves the call. `shared_per_block`: what the chip has for a block.
std::optional<MmaPlan> plan_mma(const AttentionCall& c, int shared_per_block) {
  const AttentionParams& p = c.params;
  const DType dtype = c.q.dtype();
  const bool coded = p.cache.kind >= CacheKind::float8_e4m3;
  const CacheKind same = dtype == DType::float16 ? CacheKind::float16 : CacheKind::bfloat16;
  if (dtype == DType::float32 || (!coded && p.cache.kind != same)) return std::nullopt;
  if (p.cache.max_pages * p.cache.page_size > INT32_MAX - key_piece(p.dim)) return std::nullopt;
  MmaPlan plan{};
  plan.kernel = (p.dim - 1) / kPanelDims;
  const int dim = (plan.kernel + 1) * kPanelDims;
  // Tokens of a cache may all be of different sequences: of so few, each has a block.
  const int64_t side_by_side = p.over_cache == 0 ? p.queries : p.tokens <= p.cache.sequences ? 1 : p.tokens;
  const bool wide = plan.kernel >= static_cast<int>(std::size(mma_kernels));
  int rows = wide || side_by_side * p.group <= kMmaWarpRows ? kMmaWarpRows : kMmaRows;
  plan.division = divide(p, rows);
  TileCopy copy = copy_of(c.cache, p);
  const auto shared_bytes = [&] { return mma_shared_bytes(dim, rows, plan.division.split != 0, copy); };
  if (shared_bytes() > shared_per_block) plan.division = divide(p, rows = kMmaWarpRows);
  if (copy == TileCopy::codes && shared_bytes() > shared_per_block) copy = TileCopy::elements;
  plan.shared_bytes = shared_bytes();
  if (plan.shared_bytes > shared_per_block) return std::nullopt;
  const Division& d = plan.division;
  const bool plain = has_plain_scores(c);
  plan.grid = {.rows = rows,
               .heads = d.heads,
               .chunks = d.chunks,
               .tokens = d.tokens,
               .split = d.split,
               .pieces = d.pieces,
               .copy = copy,
               .aligned_q = is_packed(c.q, 16, {p.q.batch, p.q.token, p.q.head}) ? 1 : 0,
               .plain = plain ? 1 : 0,
               .power = plain ? p.scale * kPowerOfE : 1.0f};
  return plan;
}

std::optional<MmaPlan> plan_mma(const AttentionCall& c) {
  return plan_mma(c, c.q.context().properties().shared_per_block_optin);
}

/// Widening reads keys and values once more, which many queries make up for.
bool pays_to_widen(const AttentionCall& c) {
  const AttentionParams& p = c.params;
  return c.q.context().properties().sm_major == 9 && p.cache.kind == CacheKind::float8_e4m3 && p.cache.paged == 0 &&
         p.over_cache == 0 && c.q.dtype() != DType::float32 && p.queries * p.group >= kSm90Rows;
}

jit::LaunchConfig merge_config(const AttentionParams& p) {
  return {.grid_x = static_cast<unsigned>(std::min<int64_t>(p.tokens * p.heads, 0x7fffffff)), .block_x = 64};
}

void attention_mma(const AttentionCall& c, const MmaPlan& plan) {
  const AttentionParams& p = c.params;
  const Division& d = plan.division;
  const Device device = c.out.device();
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(d.blocks_x),
                                 .grid_y = static_cast<unsigned>(d.blocks_y),
                                 .grid_z = static_cast<unsigned>(d.pieces),
                                 .block_x = 32 * kMmaWarps,
                                 .shared_bytes = static_cast<unsigned>(plan.shared_bytes),
                                 .overlaps = may_start_early(c.out, d.blocks_x * d.blocks_y * d.pieces)};
  Temporaries temporaries(c.op);
  Array pieces;
  if (d.split != 0) pieces = temporaries.empty({p.tokens * p.heads * d.pieces * (p.dim + 2)}, DType::float32, device);
  const jit::KernelSet& set = plan.grid.rows == kMmaRows ? mma_kernels[plan.kernel] : shared_mma_kernels[plan.kernel];
  jit::launch(set.get(0, c.q.dtype()), device, config, write(c.out), write_if(c.lse), write_if(pieces), read(c.q),
              read(c.cache.k), read(c.cache.v), read_if(c.cache.k_scale), read_if(c.cache.v_scale),
              read_if(c.cache.block_tables), read_if(c.first), read_if(c.second), read_if(c.mask), read_if(c.slopes),
              runtime::fault_address(device), p, plan.grid);
  if (d.split != 0) merge_pieces(c, pieces, d.pieces, plan.grid.power);
}

}  // namespace

bool is_packed(const Array& a, int64_t bytes, std::initializer_list<int64_t> strides) {
  if (a.strides()[a.ndim() - 1] != 1) return false;
  for (const int64_t stride : strides)
    if (stride * static_cast<int64_t>(itemsize(a.dtype())) % bytes != 0) return false;
  return is_aligned(a);
}

bool has_plain_scores(const AttentionCall& c) {
  const AttentionParams& p = c.params;
  return p.softcap == 0.0f && p.mask == MaskKind::none && p.scale > 0.0f && p.scale * kPowerOfE <= 1.0f &&
         !c.slopes.defined() && !c.cache.k_scale.defined();
}

bool pieces_fit(const AttentionParams& p, int64_t pieces) {
  constexpr int64_t kMostElements = int64_t{1} << 26;
  return p.tokens * p.heads * pieces * (p.dim + 2) <= kMostElements;
}

void merge_pieces(const AttentionCall& c, const Array& pieces, int32_t num_pieces, float power) {
  const AttentionParams& p = c.params;
  jit::LaunchConfig config = merge_config(p);
  config.overlaps = may_start_early(c.out, config.grid_x);
  jit::launch(mma_merge_kernels.get(0, c.q.dtype()), c.out.device(), config, write(c.out), write_if(c.lse),
              read(pieces), read_if(c.first), read_if(c.second), p, num_pieces, power);
}

void attention(const AttentionCall& c) {
  if (const std::optional<Sm90Plan> plan = plan_sm90(c)) return attention_sm90(c, *plan);
  if (pays_to_widen(c)) {
    Temporaries temporaries(c.op);
    const AttentionCall wide = with_wide_room(c, temporaries);
    if (const std::optional<Sm90Plan> plan = plan_sm90(wide)) {
      widen(c, wide);
      return attention_sm90(wide, *plan);
    }
  }
  if (const std::optional<MmaPlan> plan = plan_mma(c)) return attention_mma(c, *plan);
  const AttentionParams& p = c.params;
  const Division d = divide(p, kQueryRows);
  const AttentionGrid g{d.heads, d.chunks, d.tokens, d.split, d.pieces};
  const int kernel = kernel_of(p.dim);
  const Device device = c.out.device();
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(d.blocks_x),
                                 .grid_y = static_cast<unsigned>(d.blocks_y),
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
  jit::launch(kernels.get(3, c.q.dtype()), device, merge_config(p), write(c.out), write_if(c.lse), read(pieces),
              read_if(c.first), read_if(c.second), p, g);
}

std::string explain_attention(const AttentionCall& call) {
  if (const std::optional<Sm90Plan> plan = plan_sm90(call)) return explain_sm90(*plan);
  if (pays_to_widen(call)) {
    Temporaries temporaries(call.op);
    if (const std::optional<Sm90Plan> plan = plan_sm90(with_wide_room(call, temporaries)))
      return explain_sm90(*plan) + "; float8 keys and values are widened before";
  }
  const AttentionParams& p = call.params;
  const std::optional<MmaPlan> mma = plan_mma(call);
  const Division d = mma ? mma->division : divide(p, kQueryRows);
  const int dim = mma ? (mma->kernel + 1) * kPanelDims : padded_dim(kernel_of(p.dim));
  std::string text = std::string(mma ? "attention_sm80" : "attention") + ", padded to " + std::to_string(dim) +
                     " dims: blocks of " + std::to_string(d.tokens) + " tokens by " + std::to_string(d.heads) +
                     " heads, " + (mma ? "products on tensor cores" : "float32 sums without tensor cores");
  if (d.split != 0) text += "; keys in " + std::to_string(d.pieces) + " pieces, merged by a second kernel";
  return text + " (gpukit/ops/attention/" + (mma ? "attention_sm80.cuh)" : "attention.cuh)");
}

}  // namespace gpukit::cuda
