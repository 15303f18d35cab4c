#include "gpukit/ops/reduce/reduce_plan.h"

#include <algorithm>
#include <cstdlib>

namespace gpukit {

namespace {

constexpr int kWarps = kReduceThreads / 32;
constexpr int64_t kManyWarps = 8192;  // enough to fill any chip several times
constexpr int64_t kManyBlocks = 1024;
constexpr int64_t kColumnBlocks = 256;  // one wave: a second one that is not full costs more than it gives
constexpr int64_t kRowBlocksPerSm = 4;
constexpr int64_t kChunksPerWarp = 4;  // less, and blocks come and go too fast
constexpr int64_t kSplitFrom = 32;     // chunks of one row below which a second kernel costs more than it gains
constexpr int64_t kMaxGrid = 0x7fffffff;
constexpr int64_t kCountedPartialsBytes = (64 << 10) - kCounterOffset;  // of one counted workspace

/// Far first; a broadcast axis counts as far, so that what is contiguous comes last.
int64_t distance(const ReduceAxis& axis) { return axis.in == 0 ? INT64_MAX : std::abs(axis.in); }

int merge_axes(ReduceAxis* axes, int rank) {
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    if (axes[i].size == 1) continue;
    ReduceAxis* last = n > 0 ? &axes[n - 1] : nullptr;
    if (last != nullptr && last->in == axes[i].in * axes[i].size && last->out == axes[i].out * axes[i].size)
      *last = {last->size * axes[i].size, axes[i].in, axes[i].out};
    else
      axes[n++] = axes[i];
  }
  if (n == 0) axes[n++] = ReduceAxis{};
  return n;
}

void copy_layout(const ReduceLayout& layout, ReduceParams& p) {
  p.length = layout.length;
  p.outputs = layout.outputs;
  p.kept_rank = layout.kept_rank;
  p.reduced_rank = layout.reduced_rank;
  for (int i = 0; i < layout.kept_rank; ++i) {
    p.kept_shape[i] = make_divisor(layout.kept[i].size);
    p.kept_in[i] = layout.kept[i].in;
    p.kept_out[i] = layout.kept[i].out;
  }
  for (int i = 0; i < layout.reduced_rank; ++i) {
    p.reduced_shape[i] = make_divisor(layout.reduced[i].size);
    p.reduced_in[i] = layout.reduced[i].in;
  }
}

bool rows_are_aligned(const ReduceLayout& layout, int64_t vector) {
  if (layout.length % vector != 0) return false;
  for (int i = 0; i < layout.kept_rank; ++i)
    if (layout.kept[i].in % vector != 0) return false;
  return true;
}

void plan_finish(ReducePlan& plan, int64_t segments, int accumulator_bytes) {
  ReduceParams& p = plan.params;
  p.segments = make_divisor(segments);
  p.finish_slots = 1;
  if (segments == 1) return;
  int64_t slots = std::min<int64_t>(ceil_power(ceil_div(segments, 4)), kReduceThreads);
  // Neighbouring outputs lie side by side: eight slots leave whole cache lines of them to a block.
  if (p.partials_by_segment) slots = std::max(std::min<int64_t>(slots, 8), ceil_power(ceil_div(segments, 32)));
  p.finish_slots = static_cast<int32_t>(slots);
  plan.finish_grid = static_cast<unsigned>(std::min(ceil_div(p.outputs, kReduceThreads / slots), kMaxGrid));
  plan.partials_bytes = p.outputs * segments * accumulator_bytes;
}

/// One output: the block that is done last merges what all have, which costs less than a second kernel. Each block pays
/// for the counting, so there are no more than run at once and their pieces are large.
void plan_single(ReducePlan& plan, int64_t chunks, int accumulator_bytes, int64_t max_segments, int sm_count) {
  ReduceParams& p = plan.params;
  p.warps = kWarps;
  p.chunks_per_warp = 8;
  auto segments = [&] { return ceil_div(chunks, kWarps * p.chunks_per_warp); };
  while (p.chunks_per_warp > 1 && segments() < kManyBlocks / 2) p.chunks_per_warp /= 2;
  while (segments() > max_segments) p.chunks_per_warp *= 2;
  plan_finish(plan, segments(), accumulator_bytes);
  p.last_block = segments() > 1;
  plan.finish_grid = 0;
  plan.grid = static_cast<unsigned>(std::min<int64_t>(segments(), sm_count * kRowBlocksPerSm));
}

void plan_rows(ReducePlan& plan, int64_t chunk, int accumulator_bytes, int64_t max_segments, int sm_count) {
  ReduceParams& p = plan.params;
  const int64_t chunks = ceil_div(p.length, chunk);
  if (p.outputs == 1 && chunks > kSplitFrom && max_segments > 1)
    return plan_single(plan, chunks, accumulator_bytes, max_segments, sm_count);
  const int64_t all = ceil_power(chunks);
  int64_t warps = std::min<int64_t>(ceil_power(ceil_div(chunks, kChunksPerWarp)), kWarps);
  while (warps < std::min<int64_t>(kWarps, all) && p.outputs * warps < kManyWarps) warps *= 2;
  int64_t per_warp = all / warps;
  if (warps == kWarps && chunks > kSplitFrom) {
    while (per_warp > 1 && p.outputs * ceil_div(chunks, warps * per_warp) < kManyBlocks &&
           ceil_div(chunks, warps * (per_warp / 2)) <= max_segments)
      per_warp /= 2;
    // More and smaller pieces even out the last wave.
    while (per_warp > kChunksPerWarp && p.outputs * ceil_div(chunks, warps * per_warp) < 4 * kManyBlocks &&
           ceil_div(chunks, warps * (per_warp / 2)) <= max_segments)
      per_warp /= 2;
  }
  p.warps = static_cast<int32_t>(warps);
  p.chunks_per_warp = per_warp;
  const int64_t segments = ceil_div(chunks, warps * per_warp);
  plan_finish(plan, segments, accumulator_bytes);
  plan.grid = static_cast<unsigned>(std::min(ceil_div(p.outputs * segments, kWarps / warps), kMaxGrid));
}

void plan_narrow(ReducePlan& plan) {
  ReduceParams& p = plan.params;
  p.narrow = 1;
  p.lanes = static_cast<int32_t>(ceil_power(ceil_div(p.length, kReduceNarrow)));
  p.warps = 1;
  p.segments = make_divisor(1);
  p.finish_slots = 1;
  plan.grid = static_cast<unsigned>(std::min(ceil_div(p.outputs, kReduceThreads / p.lanes), kMaxGrid));
}

void plan_columns(ReducePlan& plan, int vector, int accumulator_bytes, int64_t max_segments) {
  ReduceParams& p = plan.params;
  const int64_t columns = p.kept_shape[p.kept_rank - 1].value;
  p.vector = vector > 1;
  p.partials_by_segment = 1;
  p.batches = p.outputs / columns;
  const int64_t across = ceil_div(columns, vector);
  const int64_t groups = ceil_power(ceil_div(p.length, 8));
  int64_t tx = std::min<int64_t>(32, ceil_power(across));
  const int64_t ty = std::min(kReduceThreads / tx, groups);
  while (tx * ty < kReduceThreads && tx < ceil_power(across)) tx *= 2;
  int64_t rows = std::clamp<int64_t>(ceil_power(ceil_div(p.length, ty)), 8, 64);
  const int64_t blocks = ceil_div(across, tx);
  p.column_blocks = make_divisor(blocks);

  auto pieces = [&](int64_t segment) { return ceil_div(p.length, segment); };
  while (rows > 8 && p.batches * blocks * pieces(ty * rows) < kColumnBlocks / 2 &&
         pieces(ty * rows / 2) <= max_segments)
    rows /= 2;
  int64_t segment = ceil_power(p.length);
  while (segment > ty * rows && p.batches * blocks * pieces(segment) < kColumnBlocks &&
         pieces(segment / 2) <= max_segments)
    segment /= 2;
  segment = std::max(segment, ty * rows);
  p.tx = static_cast<int32_t>(tx);
  p.ty = static_cast<int32_t>(ty);
  p.rows_per_thread = static_cast<int32_t>(rows);
  p.segment_rows = segment;
  const int64_t segments = pieces(segment);
  int levels = 0;
  for (int64_t passes = segment / (ty * rows); passes > 1; passes /= 2) ++levels;
  plan.block = static_cast<unsigned>(tx * ty);
  plan.shared_bytes = static_cast<unsigned>((ty + levels + 1) * tx * vector * accumulator_bytes);
  plan_finish(plan, segments, accumulator_bytes);
  plan.grid = static_cast<unsigned>(std::min(p.batches * blocks * segments, kMaxGrid));
}

}  // namespace

ReduceLayout reduce_layout(const Dims& shape, const Dims& in_strides, uint32_t reduced, const Dims& out_strides,
                           bool keep_order) {
  ReduceLayout layout;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (reduced >> axis & 1u) {
      layout.length *= shape[axis];
      layout.reduced[layout.reduced_rank++] = {shape[axis], in_strides[axis], 0};
    } else {
      layout.outputs *= shape[axis];
      layout.kept[layout.kept_rank++] = {shape[axis], in_strides[axis], out_strides[axis]};
    }
  }
  auto farther = [](const ReduceAxis& a, const ReduceAxis& b) { return distance(a) > distance(b); };
  std::stable_sort(layout.kept, layout.kept + layout.kept_rank, farther);
  if (!keep_order) std::stable_sort(layout.reduced, layout.reduced + layout.reduced_rank, farther);
  layout.kept_rank = merge_axes(layout.kept, layout.kept_rank);
  layout.reduced_rank = merge_axes(layout.reduced, layout.reduced_rank);
  return layout;
}

ReducePlan plan_reduce(const ReduceLayout& layout, int element_bytes, int accumulator_bytes, bool aligned,
                       int sm_count) {
  ReducePlan plan;
  copy_layout(layout, plan.params);
  const int64_t most = layout.outputs == 1 ? kCountedPartialsBytes : kMaxPartialsBytes;
  const int64_t max_segments = std::clamp<int64_t>(most / (layout.outputs * accumulator_bytes), 1, kReduceMaxSegments);
  const ReduceAxis& reduced = layout.reduced[0];
  const ReduceAxis& columns = layout.kept[layout.kept_rank - 1];
  const bool single = layout.reduced_rank == 1;
  const int vector = 16 / element_bytes;

  if (single && reduced.in != 1 && layout.length > 1 && columns.in == 1 && columns.size >= 8) {
    int across = vector;
    while (across > 1 && across * accumulator_bytes > 32) across /= 2;
    bool together = aligned && columns.size % across == 0 && reduced.in % across == 0;
    for (int i = 0; i + 1 < layout.kept_rank; ++i) together = together && layout.kept[i].in % across == 0;
    plan.form = ReduceForm::columns;
    plan_columns(plan, together ? across : 1, accumulator_bytes, max_segments);
  } else if (layout.length <= kReduceNarrowLength) {
    plan_narrow(plan);
  } else if (single && reduced.in == 1 && aligned && rows_are_aligned(layout, vector)) {
    plan.form = ReduceForm::rows;
    plan_rows(plan, 32 * kReduceUnits * vector, accumulator_bytes, max_segments, sm_count);
  } else if (single && reduced.in == 1 && vector > 1) {
    plan.form = ReduceForm::shifted;
    plan_rows(plan, 32 * kReduceShiftedUnits * vector, accumulator_bytes, max_segments, sm_count);
  } else {
    plan_rows(plan, 32 * kReduceUnits, accumulator_bytes, max_segments, sm_count);
  }
  return plan;
}

int accumulator_bytes(ReduceOp op, DType dtype) {
  const int bytes = itemsize(dtype);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
    case ReduceOp::prod: return is_floating(dtype) ? std::max(bytes, 4) : is_complex(dtype) ? bytes : 8;
    case ReduceOp::max:
    case ReduceOp::min: return std::max(bytes, 4);
    case ReduceOp::argmax:
    case ReduceOp::argmin: return 16;
    case ReduceOp::any:
    case ReduceOp::all: return 4;
    case ReduceOp::var:
    case ReduceOp::std: return bytes <= 4 && is_floating(dtype) ? 12 : 24;
  }
  return 16;
}

}  // namespace gpukit
