#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "gpukit/base/env_attention.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/attention/attention_cuda.h"
#include "gpukit/ops/attention/attention_sm80_shape.cuh"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {

namespace {

constexpr int kDims[] = {64, 96, 128, 192, 256};
jit::KernelSet kernel_set(const char* name) {
  return {"gpukit/ops/attention/attention_sm90.cuh", {name}, {DType::float16, DType::bfloat16}, {"90a"}};
}
const jit::KernelSet kernels[] = {
    kernel_set("gpukit::attention_sm90<{T}, 64, false>"), kernel_set("gpukit::attention_sm90<{T}, 96, false>"),
    kernel_set("gpukit::attention_sm90<{T}, 128, false>"), kernel_set("gpukit::attention_sm90<{T}, 192, false>"),
    kernel_set("gpukit::attention_sm90<{T}, 256, false>")};
// Soft caps, slopes and scales. Of 256 dims there would be too few registers.
constexpr int kShapedDims[] = {64, 128, 192};
const jit::KernelSet shaped_kernels[] = {kernel_set("gpukit::attention_sm90<{T}, 64, true>"),
                                         kernel_set("gpukit::attention_sm90<{T}, 128, true>"),
                                         kernel_set("gpukit::attention_sm90<{T}, 192, true>")};

/// Keys and values that may stay in the L2 while the units of a band read them.
constexpr int64_t kBandBytes = int64_t{24} << 20;

/// An axis of one element may have any stride: the copy engine wants a valid one.
struct Axis {
  int64_t size, stride;
};
bool suits(std::initializer_list<Axis> axes) {
  for (const Axis& axis : axes)
    if (axis.size < 1 || axis.size > std::numeric_limits<int32_t>::max() ||
        (axis.size > 1 && (axis.stride <= 0 || axis.stride >= int64_t{1} << 38)))
      return false;
  return true;
}
driver::BoxLayout layout(DType dtype, int64_t dim, const Axis (&axes)[3], int second, int third) {
  driver::BoxLayout l;
  l.dtype = dtype;
  l.rank = 4;
  l.shape[0] = dim;
  const int64_t bytes = static_cast<int64_t>(itemsize(dtype));
  int64_t inside = ceil_div(dim * bytes, 16) * 16;  // an axis of one element: past what lies inside of it
  for (int i = 0; i < 3; ++i) {
    l.shape[i + 1] = axes[i].size;
    l.strides[i] = axes[i].size > 1 ? axes[i].stride * bytes : inside;
    inside = std::max(inside, l.strides[i] * axes[i].size);
  }
  l.box[0] = kSm90PanelDims;
  l.box[1] = second;
  l.box[2] = third;
  l.swizzle = driver::BoxLayout::Swizzle::bytes128;
  return l;
}

int64_t batches_of(const AttentionParams& p) { return p.queries > 0 ? p.tokens / p.queries : 0; }

/// Microseconds, about: of the tiles of a piece, and of leaving a piece's sums in memory for another kernel.
bool pays_to_split(int64_t units, int64_t pieces, int64_t blocks, int dim) {
  constexpr double kMerge = 5.0;
  const double piece = 4.5 / (512 * 128) * key_piece(dim) * dim, leave = 1.5 / 128 * dim;
  const double whole = static_cast<double>(ceil_div(units, blocks) * pieces) * piece;
  return static_cast<double>(ceil_div(units * pieces, blocks)) * (piece + leave) + kMerge < whole;
}

}  // namespace

std::optional<Sm90Plan> plan_sm90(const AttentionCall& c) {
  const AttentionParams& p = c.params;
  const DType dtype = c.q.dtype();
  const bool shaped = !has_plain_scores(c);
  const std::span<const int> dims = shaped ? std::span<const int>(kShapedDims) : kDims;
  if (c.q.context().properties().sm_major != 9 || dtype == DType::float32 || p.dim > dims.back()) return std::nullopt;
  const CacheLayout& cache = p.cache;
  if (cache.kind != (dtype == DType::float16 ? CacheKind::float16 : CacheKind::bfloat16) || p.mask != MaskKind::none)
    return std::nullopt;
  const int64_t side_by_side = p.over_cache == 0 ? p.queries : p.tokens <= cache.sequences ? 1 : p.tokens;
  if (side_by_side * p.group <= kMmaWarpRows) return std::nullopt;
  const bool packed = is_packed(c.q, 16, {p.q.batch, p.q.token, p.q.head}) &&
                      is_packed(c.cache.k, 16, {cache.k.page, cache.k.slot, cache.k.head}) &&
                      is_packed(c.cache.v, 16, {cache.v.page, cache.v.slot, cache.v.head});
  const int64_t kv_heads = p.heads / p.group, batches = batches_of(p);
  const bool movable =
      suits({{p.heads, p.q.head}, {p.queries, p.q.token}, {batches, p.q.batch}}) &&
      suits({{cache.page_size, cache.k.slot}, {kv_heads, cache.k.head}, {cache.pages, cache.k.page}}) &&
      suits({{cache.page_size, cache.v.slot}, {kv_heads, cache.v.head}, {cache.pages, cache.v.page}});
  const int64_t capacity = cache.max_pages * cache.page_size;
  if (!packed || !movable || p.queries + std::abs(p.first_position) > INT32_MAX - key_piece(p.dim) - capacity)
    return std::nullopt;
  // A box of keys lies within a page.
  const bool small_pages = cache.paged != 0 && cache.page_size < kKeyTile;
  if (cache.paged != 0 &&
      (small_pages ? kKeyTile % cache.page_size != 0 || cache.page_size < 8 : cache.page_size % kKeyTile != 0))
    return std::nullopt;

  Sm90Plan plan{};
  int kernel = 0;
  while (dims[kernel] < p.dim) ++kernel;
  plan.dim = dims[kernel];
  plan.kernels = shaped ? &shaped_kernels[kernel] : &kernels[kernel];
  Sm90Grid& g = plan.grid;
  g.chunks = static_cast<int32_t>(ceil_div(p.group, kSm90Rows));
  g.heads = static_cast<int32_t>(ceil_div(p.group, g.chunks));
  g.tokens = kSm90Rows / g.heads;
  const int64_t token_blocks = ceil_div(p.queries, g.tokens), columns = batches * kv_heads * g.chunks;
  const int64_t pieces = ceil_div(capacity, key_piece(p.dim));
  if (token_blocks * columns > INT32_MAX / std::max<int64_t>(pieces, 1)) return std::nullopt;
  const int64_t sm_count = runtime::current_sm_count(c.q.device());
  const bool split = pieces > 1 && pieces_fit(p, pieces) &&
                     env::flash_decoding().value_or(pays_to_split(token_blocks * columns, pieces, sm_count, plan.dim));
  g.token_blocks = static_cast<int32_t>(token_blocks);
  g.columns = static_cast<int32_t>(columns);
  g.split = split ? 1 : 0;
  g.pieces = split ? static_cast<int32_t>(pieces) : 1;
  const int64_t column_bytes = capacity * p.dim * 4;
  g.band = static_cast<int32_t>(
      std::clamp<int64_t>(kBandBytes / std::max<int64_t>(column_bytes, 1) * g.chunks, g.chunks, columns));
  g.box_keys = static_cast<int32_t>(small_pages ? cache.page_size : kKeyTile);
  g.power = shaped ? 1.0f : p.scale * kPowerOfE;
  plan.blocks = static_cast<int>(std::min<int64_t>(token_blocks * columns * g.pieces, sm_count));
  return plan;
}

AttentionCall with_wide_room(const AttentionCall& c, Temporaries& temporaries) {
  AttentionCall wide = c;
  for (Array* a : {&wide.cache.k, &wide.cache.v}) *a = temporaries.empty(a->shape(), c.q.dtype(), c.q.device());
  CacheLayout& cache = wide.params.cache;
  cache.kind = c.q.dtype() == DType::float16 ? CacheKind::float16 : CacheKind::bfloat16;
  for (const auto& [a, s] : {std::pair{&wide.cache.k, &cache.k}, std::pair{&wide.cache.v, &cache.v}}) {
    const Dims& strides = a->strides();
    *s = {strides[0], strides[1], strides[2], strides[3], s->scale_page, s->scale_slot, s->scale_head};
  }
  return wide;
}

void widen(const AttentionCall& c, const AttentionCall& wide) {
  copy_into(wide.cache.k, c.cache.k);
  Temporaries temporaries(c.op);
  const Array values = temporaries.empty(c.cache.v.shape(), DType::float32, c.q.device());
  copy_into(values, c.cache.v);
  multiply(values, c.cache.v_scale.reshape_view({c.cache.v_scale.size(), 1}), &values);
  copy_into(wide.cache.v, values);
}

void attention_sm90(const AttentionCall& c, const Sm90Plan& plan) {
  const AttentionParams& p = c.params;
  Sm90Grid g = plan.grid;
  g.aligned_out = p.dim % 8 == 0 && is_packed(c.out, 16, {p.out.batch, p.out.token, p.out.head}) ? 1 : 0;
  const CacheLayout& cache = p.cache;
  const DType dtype = c.q.dtype();
  const Device device = c.out.device();
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(plan.blocks),
                                 .block_x = kSm90Threads,
                                 .shared_bytes = static_cast<unsigned>(sm90_places(plan.dim).bytes),
                                 .overlaps = should_overlap(plan.blocks, runtime::current_sm_count(device))};
  Temporaries temporaries(c.op);
  Array pieces, totals;
  const bool keeps_totals = sm90_is_wide(plan.dim) && g.split == 0;
  if (keeps_totals && cache.max_pages * cache.page_size > key_piece(p.dim))
    totals = temporaries.empty({int64_t{plan.blocks} * kSm90Rows * plan.dim}, DType::float32, device);
  if (g.split != 0) pieces = temporaries.empty({p.tokens * p.heads * g.pieces * (p.dim + 2)}, DType::float32, device);
  const int64_t kv_heads = p.heads / p.group;
  const auto keys = [&](const CacheStrides& s) {
    return layout(dtype, p.dim, {{cache.page_size, s.slot}, {kv_heads, s.head}, {cache.pages, s.page}}, g.box_keys, 1);
  };
  const driver::BoxLayout queries = layout(
      dtype, p.dim, {{p.heads, p.q.head}, {p.queries, p.q.token}, {batches_of(p), p.q.batch}}, g.heads, g.tokens);
  jit::launch(plan.kernels->get(0, dtype), device, config, write(c.out), write_if(c.lse), write_if(pieces),
              write_if(totals), jit::Boxes{read(c.q), queries}, jit::Boxes{read(c.cache.k), keys(cache.k)},
              jit::Boxes{read(c.cache.v), keys(cache.v)}, read_if(c.cache.block_tables), read_if(c.first),
              read_if(c.second), read_if(c.cache.k_scale), read_if(c.slopes), runtime::fault_address(device), p, g);
  if (g.split != 0) merge_pieces(c, pieces, g.pieces, g.power);
}

std::string explain_sm90(const Sm90Plan& plan) {
  const Sm90Grid& g = plan.grid;
  std::string text = "attention_sm90, padded to " + std::to_string(plan.dim) + " dims: " + std::to_string(plan.blocks) +
                     " blocks take units of " + std::to_string(g.tokens) + " tokens by " + std::to_string(g.heads) +
                     " heads, products by wgmma, TMA loads";
  if (g.split != 0) text += "; keys in " + std::to_string(g.pieces) + " pieces, merged by a second kernel";
  return text + " (gpukit/ops/attention/attention_sm90.cuh)";
}

}  // namespace gpukit::cuda
