#include "gpukit/ops/common/rows.h"

#include <algorithm>

#include "gpukit/ops/common/rounding.h"

namespace gpukit {

namespace {

constexpr int64_t kMaxGrid = 0x7fffffff;

struct Axis {
  int64_t size, in, out;
};

int merge_axes(Axis* axes, int rank) {
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    if (axes[i].size == 1) continue;
    Axis* last = n > 0 ? &axes[n - 1] : nullptr;
    if (last != nullptr && last->in == axes[i].in * axes[i].size && last->out == axes[i].out * axes[i].size)
      *last = {last->size * axes[i].size, axes[i].in, axes[i].out};
    else
      axes[n++] = axes[i];
  }
  return n;
}

void plan_columns(RowPlan& plan, const Axis& across, int element_bytes, bool vector) {
  RowParams& p = plan.params;
  const int accumulator_bytes = std::max(element_bytes, 4);
  const int64_t v = vector ? 16 / element_bytes : 1;
  const int64_t batches = p.rows / across.size;
  const int64_t threads = ceil_div(across.size, v);
  int64_t tx = std::min<int64_t>(32, ceil_power(threads));
  // Few columns: narrower blocks, down to 128 bytes of a row, keep more of the chip busy.
  while (tx > 8 && batches * ceil_div(threads, tx) < 256) tx /= 2;
  const int64_t ty = std::min<int64_t>(kRowThreads / tx, ceil_power(ceil_div(p.width, 8)));
  const int64_t along = std::clamp<int64_t>(ceil_power(ceil_div(p.width, ty)), 8, 64);
  int levels = 1;
  for (int64_t passes = ceil_div(p.width, ty * along); passes > 1; passes = ceil_div(passes, 2)) ++levels;
  plan.form = RowForm::columns;
  plan.vector = vector;
  p.tx = static_cast<int32_t>(tx);
  p.ty = static_cast<int32_t>(ty);
  p.rows_per_thread = static_cast<int32_t>(along);
  p.columns = across.size;
  p.column_blocks = make_divisor(ceil_div(threads, tx));
  plan.block = static_cast<unsigned>(tx * ty);
  plan.shared_bytes = static_cast<unsigned>((ty + levels) * tx * v * accumulator_bytes);
  plan.grid = static_cast<unsigned>(std::min(batches * p.column_blocks.value, kMaxGrid));
}

}  // namespace

bool is_aligned(const Array& a) {
  // Our own blocks start at multiples of 256 bytes; foreign memory stays where it is.
  const uint64_t base = a.storage()->foreign() ? a.storage()->address() : 0;
  return (base + static_cast<uint64_t>(a.offset_bytes())) % 16 == 0;
}

RowPlan plan_rows(const Dims& shape, const Dims& in_strides, const Dims& out_strides, int axis, int element_bytes,
                  bool aligned, bool columns_too) {
  RowPlan plan;
  RowParams& p = plan.params;
  Axis axes[kKernelRank];
  int rank = 0;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) axes[rank++] = {shape[i], in_strides[i], out_strides[i]};
  rank = merge_axes(axes, rank);
  p.rank = rank;
  p.rows = 1;
  p.width = shape[axis];
  p.in_step = in_strides[axis];
  p.out_step = out_strides[axis];
  const int64_t vector = 16 / element_bytes;
  bool together = aligned;  // 16 bytes of what lies side by side
  for (int i = 0; i < rank; ++i) {
    p.rows *= axes[i].size;
    p.shape[i] = make_divisor(axes[i].size);
    p.in[i] = axes[i].in;
    p.out[i] = axes[i].out;
  }

  const Axis* across = rank > 0 ? &axes[rank - 1] : nullptr;
  if (columns_too && p.in_step != 1 && p.width > 1 && across != nullptr && across->in == 1 && across->out == 1 &&
      across->size >= 8) {
    for (int i = 0; i + 1 < rank; ++i) together = together && axes[i].in % vector == 0 && axes[i].out % vector == 0;
    together = together && across->size % vector == 0 && p.in_step % vector == 0 && p.out_step % vector == 0;
    plan_columns(plan, *across, element_bytes, together);
    return plan;
  }
  for (int i = 0; i < rank; ++i) together = together && axes[i].in % vector == 0 && axes[i].out % vector == 0;
  plan.vector = together && p.width % vector == 0 && (p.width == 1 || (p.in_step == 1 && p.out_step == 1));

  const int64_t v = plan.vector ? vector : 1;
  const int64_t units = p.width / v;
  const int64_t per_warp = 32 * row_elements(element_bytes, plan.vector);
  const int64_t warps = ceil_power(ceil_div(p.width, per_warp));
  p.lanes = 32;
  p.warps = static_cast<int32_t>(std::min<int64_t>(warps, 32));
  if (warps > 32) {
    plan.form = RowForm::wide;
    plan.block = kRowMaxThreads;
    plan.grid = static_cast<unsigned>(std::min(p.rows, kMaxGrid));
    p.chunks_per_warp = std::max<int64_t>(1, ceil_power(ceil_div(p.width, 32 * v * wide_units(element_bytes))) / 32);
    return plan;
  }
  if (units <= 16) p.lanes = static_cast<int32_t>(ceil_power(units));
  plan.block = static_cast<unsigned>(std::max<int64_t>(kRowThreads, warps * 32));
  const int64_t threads = p.lanes < 32 ? p.lanes : warps * 32;
  plan.grid = static_cast<unsigned>(std::min(ceil_div(p.rows, plan.block / threads), kMaxGrid));
  return plan;
}

RowSplit split_rows(const RowPlan& plan, int element_bytes) {
  constexpr int64_t kManyBlocks = 256, kLeastSegments = 8;
  const RowParams& p = plan.params;
  RowSplit split = {1, p.chunks_per_warp};
  if (plan.form != RowForm::wide) return split;
  const int64_t v = plan.vector ? 16 / element_bytes : 1;
  const int64_t chunks = ceil_div(p.width, 32 * v * wide_units(element_bytes)), warps = kRowMaxThreads / 32;
  const auto segments = [&](int64_t per_warp) { return ceil_div(chunks, warps * per_warp); };
  int64_t per_warp = p.chunks_per_warp;
  while (per_warp > 1 && p.rows * segments(per_warp) < kManyBlocks && segments(per_warp / 2) <= kMaxRowSegments)
    per_warp /= 2;
  if (segments(per_warp) < kLeastSegments) return split;
  return {segments(per_warp), per_warp};
}

int64_t row_offset(const RowParams& p, const int64_t (&strides)[kKernelRank], int64_t index) {
  int64_t offset = 0;
  for (int i = p.rank - 1; i >= 0; --i) {
    offset += index % p.shape[i].value * strides[i];
    index /= p.shape[i].value;
  }
  return offset;
}

}  // namespace gpukit
