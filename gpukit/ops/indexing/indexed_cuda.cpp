#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/indexing/indexed_move.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::cuda {

namespace {

constexpr int kBlock = 256;
constexpr int64_t kFewPositions = 64;
constexpr int64_t kManyLines = 32768;

// One module per element width; the dtypes stand for 1, 2, 4, 8 and 16 bytes.
enum IndexedKernel { get_rows, get_elements, set_rows, set_elements, set_lines };
const jit::KernelSet kernels("gpukit/ops/indexing/indexed.cuh",
                             {"gpukit::indexed_get<{T}, true>", "gpukit::indexed_get<{T}, false>",
                              "gpukit::indexed_set<{T}, true>", "gpukit::indexed_set<{T}, false>",
                              "gpukit::indexed_set_lines<{T}>"},
                             {DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::complex128});
enum ResolveKernel { resolve_indices, keep_winners };
const jit::KernelSet resolve_kernels("gpukit/ops/indexing/resolve.cuh",
                                     {"gpukit::resolve_indices", "gpukit::keep_winners"});

DType width_dtype(int bytes) {
  switch (bytes) {
    case 1: return DType::uint8;
    case 2: return DType::uint16;
    case 4: return DType::uint32;
    case 8: return DType::uint64;
    default: return DType::complex128;
  }
}

/// Bytes the start of a view is known to be aligned to, 16 at most. Our own blocks start at multiples of 256.
int64_t alignment(const Array& a) {
  const uint64_t start = (a.storage()->foreign() ? static_cast<uint64_t>(a.storage()->address()) : 0) +
                         static_cast<uint64_t>(a.offset_bytes());
  return start == 0 ? 16 : std::min<int64_t>(16, int64_t{1} << std::countr_zero(start));
}

/// Makes `factor` neighbours along the innermost axis one element.
void widen(MoveAxes* axes, int factor) {
  const int last = axes->rank - 1;
  axes->shape[last] /= factor;
  axes->size /= factor;
  for (int axis = 0; axis < last; ++axis) {
    axes->plain_strides[axis] /= factor;
    axes->indexed_strides[axis] /= factor;
  }
}

IndexedSpace make_space(const IndexedMove& move, const MoveAxes& axes, int factor) {
  IndexedSpace space{};
  space.rank = axes.rank;
  space.fault_op = runtime::fault_code(move.op);
  const IndexArgument& index = move.indices[0];
  space.kind = index_kind(index.values.dtype());
  space.axis_size = index.axis_size;
  space.axis_stride = index.axis_stride / factor;
  std::copy_n(axes.shape, axes.rank, space.shape);
  std::copy_n(axes.plain_strides, axes.rank, space.plain_strides);
  std::copy_n(axes.indexed_strides, axes.rank, space.indexed_strides);
  std::copy_n(axes.index_strides[0], axes.rank, space.index_strides);
  return space;
}

unsigned grid_for(int64_t count, int64_t per_block) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + per_block - 1) / per_block, 1, 0x7fffffff));
}

struct RowLaunch {
  jit::LaunchConfig config;
  int64_t rows;
};

RowLaunch plan_rows(const IndexedSpace& space) {
  const int64_t width = space.shape[space.rank - 1];
  RowLaunch launch{};
  launch.rows = 1;
  for (int axis = 0; axis + 1 < space.rank; ++axis) launch.rows *= space.shape[axis];
  const auto wanted = static_cast<uint64_t>(
      std::max<int64_t>((width + kIndexedUnroll - 1) / kIndexedUnroll, std::min<int64_t>(width, 32)));
  const unsigned columns = static_cast<unsigned>(std::min<uint64_t>(std::bit_ceil(wanted), kBlock));
  launch.config.block_x = columns;
  launch.config.block_y = kBlock / columns;
  launch.config.grid_x = grid_for(launch.rows, launch.config.block_y);
  launch.config.grid_y = std::min(grid_for(width, int64_t{columns} * kIndexedUnroll), 65535u);
  return launch;
}

/// Replaces the indices of a move by one array of element offsets over the axes they depend on; with `claim`, of
/// positions that lead to one element only the last stays. The axes lose those strides of the indexed array that are
/// now in the offsets.
Array resolve(const IndexedMove& move, MoveAxes* axes, int factor, bool claim, Temporaries& into) {
  const Device device = move.indexed.device();
  ResolveSpace space{};
  space.num_indices = move.num_indices;
  space.fault_op = runtime::fault_code(move.op);
  space.size = 1;
  int source[kMaxRank];
  for (int axis = 0; axis < axes->rank; ++axis) {
    bool depends = claim && axes->ordered[axis];
    for (int j = 0; j < move.num_indices; ++j) depends = depends || axes->index_strides[j][axis] != 0;
    if (!depends) continue;
    source[space.rank] = axis;
    space.shape[space.rank] = axes->shape[axis];
    space.size *= axes->shape[axis];
    space.indexed_strides[space.rank] = axes->indexed_strides[axis];
    for (int j = 0; j < move.num_indices; ++j) space.index_strides[j][space.rank] = axes->index_strides[j][axis];
    ++space.rank;
  }
  int64_t stride = space.size;
  for (int axis = 0; axis < axes->rank; ++axis) axes->index_strides[0][axis] = 0;
  for (int i = 0; i < space.rank; ++i) {
    stride /= space.shape[i];
    axes->index_strides[0][source[i]] = stride;
    axes->indexed_strides[source[i]] = 0;
  }
  if (space.rank == 0) space.shape[space.rank++] = 1;

  std::array<memory::Use, kMaxIndices> uses{};
  for (int j = 0; j < move.num_indices; ++j) {
    const IndexArgument& index = move.indices[static_cast<size_t>(j)];
    space.axis_sizes[j] = index.axis_size;
    space.axis_strides[j] = index.axis_stride / factor;
    space.kinds[j] = index_kind(index.values.dtype());
    uses[static_cast<size_t>(j)] = read(index.values);
  }
  const Array resolved = into.empty({space.size}, DType::int64, device);
  Array claims;
  memory::Use claims_use{};
  if (claim) {
    space.capacity = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(space.size) * 2));
    claims = into.empty({2 * space.capacity}, DType::int64, device);
    runtime::fill(write(claims), 1, 0x80, static_cast<size_t>(claims.nbytes()));
    claims_use = write(claims);
  }
  const jit::LaunchConfig config{.grid_x = grid_for(space.size, kBlock), .block_x = kBlock};
  jit::launch(resolve_kernels.get(resolve_indices), device, config, write(resolved), claims_use, uses[0], uses[1],
              uses[2], uses[3], uses[4], uses[5], uses[6], uses[7], runtime::fault_address(device), space);
  if (claim)
    jit::launch(resolve_kernels.get(keep_winners), device, config, write(resolved), read(claims), space.capacity,
                space.size);
  return resolved;
}

/// A space over the offsets that resolve() made.
IndexedSpace resolved_space(const IndexedMove& move, const MoveAxes& axes) {
  IndexedSpace space = make_space(move, axes, 1);
  space.kind = IndexKind::offset;
  return space;
}

}  // namespace

int plan_width(const IndexedMove& move, const MoveAxes& axes, const Array* plain) {
  const int item = itemsize(move.indexed.dtype());
  const int last = axes.rank - 1;
  if (axes.indexed_strides[last] != 1 || (plain != nullptr && axes.plain_strides[last] != 1)) return 1;
  for (int j = 0; j < move.num_indices; ++j)
    if (axes.index_strides[j][last] != 0) return 1;
  uint64_t common = static_cast<uint64_t>(alignment(move.indexed)) | static_cast<uint64_t>(axes.shape[last] * item);
  if (plain != nullptr) common |= static_cast<uint64_t>(alignment(*plain));
  for (int axis = 0; axis < last; ++axis)
    common |= static_cast<uint64_t>(std::abs(axes.indexed_strides[axis]) * item) |
              static_cast<uint64_t>(std::abs(axes.plain_strides[axis]) * item);
  for (int j = 0; j < move.num_indices; ++j)
    common |= static_cast<uint64_t>(std::abs(move.indices[static_cast<size_t>(j)].axis_stride) * item);
  const int bytes = std::min(16, 1 << std::countr_zero(common));
  return std::max(1, bytes / item);
}

SetMethod plan_set(const IndexedMove& move, const MoveAxes& ordered_axes) {
  int64_t positions = 1;
  for (int axis = 0; axis < ordered_axes.num_ordered; ++axis) positions *= ordered_axes.shape[axis];
  if (positions <= 1) return SetMethod::direct;
  const int64_t lines = ordered_axes.size / positions;
  const bool lines_fit = move.num_indices == 1 && ordered_axes.num_ordered == 1;
  return lines_fit && (positions <= kFewPositions || lines >= kManyLines) ? SetMethod::lines : SetMethod::claims;
}

void indexed_get(const IndexedMove& move, const Array& out) {
  const Device device = out.device();
  MoveAxes axes = move_axes(move, out.strides(), false);
  const int factor = plan_width(move, axes, &out);
  widen(&axes, factor);
  Temporaries temporaries(move.op);
  Array resolved;
  IndexedSpace space;
  const Array* index = &move.indices[0].values;
  if (move.num_indices == 1) {
    space = make_space(move, axes, factor);
  } else {
    resolved = resolve(move, &axes, factor, false, temporaries);
    space = resolved_space(move, axes);
    index = &resolved;
  }
  const RowLaunch launch = plan_rows(space);
  const bool by_rows = space.index_strides[space.rank - 1] == 0;
  jit::launch(kernels.get(by_rows ? get_rows : get_elements, width_dtype(factor * itemsize(out.dtype()))), device,
              launch.config, write(out), read(move.indexed), read(*index), runtime::fault_address(device), space,
              launch.rows);
}

void indexed_set(const IndexedMove& move, const Array* values, const ElementBytes& element) {
  const Device device = move.indexed.device();
  const int item = itemsize(move.indexed.dtype());
  const Dims plain_strides = values != nullptr ? values->strides() : Dims::filled(move.shape.rank(), 0);
  const memory::Use plain = values != nullptr ? read(*values) : memory::Use{};
  ElementBytes pattern;
  for (int at = 0; at < 16; at += item) std::memcpy(pattern.bytes + at, element.bytes, static_cast<size_t>(item));

  MoveAxes axes = move_axes(move, plain_strides, true);
  const SetMethod method = plan_set(move, axes);
  if (method == SetMethod::lines) {
    const int factor = axes.rank > 1 ? plan_width(move, axes, values) : 1;
    widen(&axes, factor);
    const IndexedSpace space = make_space(move, axes, factor);
    const int64_t lines = axes.size / axes.shape[0];
    const jit::LaunchConfig config{.grid_x = grid_for(lines, kBlock), .block_x = kBlock};
    jit::launch(kernels.get(set_lines, width_dtype(factor * item)), device, config, write(move.indexed), plain, pattern,
                read(move.indices[0].values), runtime::fault_address(device), space, lines);
    return;
  }
  axes = move_axes(move, plain_strides, false);
  const int factor = plan_width(move, axes, values);
  widen(&axes, factor);
  Temporaries temporaries(move.op);
  Array resolved;
  IndexedSpace space;
  const Array* index = &move.indices[0].values;
  if (move.num_indices == 1 && method == SetMethod::direct) {
    space = make_space(move, axes, factor);
  } else {
    resolved = resolve(move, &axes, factor, method == SetMethod::claims, temporaries);
    space = resolved_space(move, axes);
    index = &resolved;
  }
  const RowLaunch launch = plan_rows(space);
  const bool by_rows = space.index_strides[space.rank - 1] == 0;
  jit::launch(kernels.get(by_rows ? set_rows : set_elements, width_dtype(factor * item)), device, launch.config,
              write(move.indexed), plain, pattern, read(*index), runtime::fault_address(device), space, launch.rows);
}

}  // namespace gpukit::cuda
