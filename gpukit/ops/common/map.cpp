#include "gpukit/ops/common/map.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "gpukit/jit/launch.h"
#include "gpukit/jit/module.h"
#include "gpukit/ops/common/trace.h"
#include "gpukit/ops/hopper/pdl.h"

namespace gpukit::cuda {

namespace {

constexpr int64_t kMaxSlice = INT32_MAX;
/// Shorter edges are read where they are: a tile would be mostly empty.
constexpr int64_t kMinTileEdge = 8;
/// Neighbours closer than a memory sector share its transfer.
constexpr int64_t kSectorBytes = 32;

int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/// The axis along which an input's elements lie closest, or -1 when x is as good.
int tile_axis(const StridedSpace& space, int operand, int itemsize) {
  const int x = space.rank - 1;
  const int64_t along_x = magnitude(space.strides[operand][x]);
  if (along_x * itemsize < kSectorBytes || space.shape[x] < kMinTileEdge) return -1;
  int best = -1;
  for (int axis = 0; axis < x; ++axis) {
    const int64_t step = magnitude(space.strides[operand][axis]);
    if (step == 0 || step >= along_x || space.shape[axis] < kMinTileEdge) continue;
    if (best < 0 || step < magnitude(space.strides[operand][best])) best = axis;
  }
  return best;
}

/// Without a tile any axis can serve as y: the one before x, unless it is too short to fill a block.
int row_axis(const StridedSpace& space, int64_t rows_wanted) {
  int best = space.rank - 2;
  if (space.shape[best] >= rows_wanted) return best;
  for (int axis = space.rank - 3; axis >= 0; --axis)
    if (space.shape[axis] > space.shape[best]) best = axis;
  return best;
}

int log2_ceil(int64_t v) { return v <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(v - 1)); }

int64_t blocks_of(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

/// What map_tiled.cuh asks for.
bool whole_tiles(const StridedMap& map, int num_operands, const MapTile& tile) {
  const int x = map.rank - 1, y = x - 1;
  if (map.tiled == 0 || map.shape[x] % (tile.lanes * tile.pack) != 0 || map.shape[y] % tile.tile_y != 0) return false;
  for (int i = 0; i < num_operands; ++i) {
    const int along = i > 0 && ((map.tiled >> (i - 1)) & 1u) != 0 ? y : x;
    for (int axis = 0; axis < map.rank; ++axis)
      if (axis == along ? map.strides[i][axis] != 1 : map.strides[i][axis] % tile.pack != 0) return false;
  }
  return true;
}

}  // namespace

StridedPlan plan_strided(const StridedSpace& from, std::span<const int> itemsizes) {
  StridedSpace space = from;
  while (space.rank < 2) {
    for (int i = 0; i < space.num_operands; ++i) {
      space.strides[i][1] = space.strides[i][0];
      space.strides[i][0] = 0;
    }
    space.shape[1] = space.rank == 0 ? 1 : space.shape[0];
    space.shape[0] = 1;
    ++space.rank;
  }
  const int widest = *std::max_element(itemsizes.begin(), itemsizes.end());
  const MapTile tile = map_tile(widest);
  const int x = space.rank - 1;
  StridedPlan plan;
  StridedMap& map = plan.map;

  int y = -1;
  for (int i = 1; i < space.num_operands; ++i) {
    const int axis = tile_axis(space, i, itemsizes[i]);
    if (axis < 0 || (y >= 0 && axis != y)) continue;
    y = axis;
    map.tiled |= 1u << (i - 1);
    plan.shared_bytes += map_tile_bytes(widest, itemsizes[i]);
  }
  if (y >= 0) {
    map.log2_lanes = log2_ceil(tile.lanes);
  } else {
    map.log2_lanes = std::min(log2_ceil(blocks_of(space.shape[x], tile.pack)), log2_ceil(kMapThreads));
    y = row_axis(space, kMapThreads >> map.log2_lanes);
    map.packs_along = space.shape[y] < tile.packs && space.shape[x] > (int64_t{tile.pack} << map.log2_lanes);
  }

  map.rank = space.rank;
  int at = 0;
  auto place = [&](int axis) {
    map.shape[at] = static_cast<uint32_t>(space.shape[axis]);
    for (int i = 0; i < space.num_operands; ++i) map.strides[i][at] = space.strides[i][axis];
    ++at;
  };
  for (int axis = 0; axis < x; ++axis)
    if (axis != y) place(axis);
  place(y);
  place(x);

  const int log2_x = map.log2_lanes + (map.packs_along != 0 ? log2_ceil(tile.packs) : 0);
  map.blocks_x = static_cast<uint32_t>(blocks_of(space.shape[x], int64_t{tile.pack} << log2_x));
  map.blocks_y = static_cast<uint32_t>(blocks_of(space.shape[y], (int64_t{kMapThreads} * tile.packs) >> log2_x));
  const int64_t outer = space.size / (space.shape[x] * space.shape[y]);
  plan.grid = static_cast<unsigned>(map.blocks_x * int64_t{map.blocks_y} * outer);
  plan.whole_tiles = whole_tiles(map, space.num_operands, tile);
  return plan;
}

namespace {

template <int N>
struct Operands {
  const Array* arrays[N];  // the output first; null for a scalar
  int itemsizes[N];
  int widest;

  bool all_arrays() const {
    for (const Array* array : arrays)
      if (array == nullptr) return false;
    return true;
  }
  bool all_contiguous() const {
    if (!arrays[0]->is_contiguous()) return false;
    for (int i = 1; i < N; ++i)
      if (arrays[i] != nullptr && (!arrays[i]->is_contiguous() || !(arrays[i]->shape() == arrays[0]->shape())))
        return false;
    return true;
  }
  /// One run of unit steps in every array, in some order of the axes.
  bool flat(const StridedSpace& space) const {
    if (space.rank > 1) return false;
    for (int i = 0; i < N; ++i)
      if (space.rank == 1 && arrays[i] != nullptr && space.strides[i][0] != 1) return false;
    return true;
  }
  /// Every array starts at a multiple of `pack` elements. Our own blocks are aligned; only the offset counts there.
  bool start_at_packs(const int64_t (&offsets)[N], int pack) const {
    for (int i = 0; i < N; ++i) {
      if (arrays[i] == nullptr) continue;
      const memory::Storage& storage = *arrays[i]->storage();
      const uint64_t start =
          (storage.foreign() ? storage.address() : 0) + static_cast<uint64_t>(use(i, offsets[i]).offset_bytes);
      const auto unit = static_cast<uint64_t>(pack * itemsizes[i]);  // a power of two: no division
      if ((start & (unit - 1)) != 0) return false;
    }
    return true;
  }
  memory::Use use(int i, int64_t offset) const {
    if (arrays[i] == nullptr) return {};
    memory::Use use = i == 0 ? write(*arrays[0]) : read(*arrays[i]);
    use.offset_bytes += offset * itemsizes[i];
    return use;
  }
};

template <int N>
Operands<N> operands_of(const Array* const (&arrays)[N]) {
  Operands<N> o;
  o.widest = 0;
  for (int i = 0; i < N; ++i) {
    o.arrays[i] = arrays[i];
    o.itemsizes[i] = arrays[i] == nullptr ? 1 : itemsize(arrays[i]->dtype());
    o.widest = std::max(o.widest, o.itemsizes[i]);
  }
  return o;
}

template <int N, typename... Last>
void launch_operands(const jit::Kernel& kernel, const Operands<N>& o, const int64_t (&offsets)[N],
                     const jit::LaunchConfig& config, const Last&... last) {
  const Device device = o.arrays[0]->device();
  if constexpr (N == 2)
    jit::launch(kernel, device, config, o.use(0, offsets[0]), o.use(1, offsets[1]), last...);
  else if constexpr (N == 3)
    jit::launch(kernel, device, config, o.use(0, offsets[0]), o.use(1, offsets[1]), o.use(2, offsets[2]), last...);
  else
    jit::launch(kernel, device, config, o.use(0, offsets[0]), o.use(1, offsets[1]), o.use(2, offsets[2]),
                o.use(3, offsets[3]), last...);
}

/// Halves the longest axis until a slice fits the kernels' 31-bit counts.
template <int N>
void launch_slices(const MapKernels& kernels, const Operands<N>& o, const StridedSpace& space,
                   const int64_t (&offsets)[N], const MapArgs& args) {
  if (space.size > kMaxSlice) {
    const int axis = static_cast<int>(std::max_element(space.shape, space.shape + space.rank) - space.shape);
    const int64_t extent = space.shape[axis];
    int64_t start = 0;
    for (int64_t part : {extent / 2, extent - extent / 2}) {
      StridedSpace slice = space;
      slice.shape[axis] = part;
      slice.size = space.size / extent * part;
      int64_t at[N];
      for (int i = 0; i < N; ++i) at[i] = offsets[i] + start * space.strides[i][axis];
      launch_slices(kernels, o, slice, at, args);
      start += part;
    }
    return;
  }
  const StridedPlan plan = plan_strided(space, o.itemsizes);
  const bool tiled = kernels.tiled != nullptr && plan.whole_tiles && o.all_arrays() &&
                     o.start_at_packs(offsets, map_tile(o.widest).pack);
  launch_operands(tiled ? *kernels.tiled : kernels.strided, o, offsets,
                  {.grid_x = plan.grid,
                   .block_x = kMapThreads,
                   .shared_bytes = plan.shared_bytes,
                   .overlaps = may_start_early(*o.arrays[0], plan.grid)},
                  args, plan.map);
}

template <int N>
StridedSpace space_of(const Array* const (&arrays)[N]) {
  if constexpr (N == 2)
    return strided_space(*arrays[0], {arrays[1]});
  else if constexpr (N == 3)
    return strided_space(*arrays[0], {arrays[1], arrays[2]});
  else
    return strided_space(*arrays[0], {arrays[1], arrays[2], arrays[3]});
}

template <int N>
void launch_any(const MapKernels& kernels, const Array* const (&arrays)[N], const MapArgs& args) {
  if (Trace* trace = current_trace()) [[unlikely]] {
    const jit::Kernel& kernel = kernels.contiguous;
    const std::string functor = functor_of(kernel.name()), &source = kernel.module()->source();
    if constexpr (N == 2)
      return trace->add(*arrays[0], {arrays[1]}, functor, source, args, false);
    else if constexpr (N == 3)
      return trace->add(*arrays[0], {arrays[1], arrays[2]}, functor, source, args, false);
    else
      return trace->add(*arrays[0], {arrays[1], arrays[2], arrays[3]}, functor, source, args, false);
  }
  const int64_t n = arrays[0]->size();
  if (n == 0) return;
  const Operands<N> o = operands_of(arrays);
  constexpr int64_t kNoOffsets[N] = {};
  if (!o.all_contiguous()) {
    const StridedSpace space = space_of(arrays);
    if (!o.flat(space)) return launch_slices(kernels, o, space, kNoOffsets, args);
  }
  int arrays_in = 0;
  for (int i = 1; i < N; ++i) arrays_in += o.arrays[i] != nullptr;
  const int most = map_threads(N - 1, kernels.cost, o.widest);
  const int threads = arrays_in > 1 ? most : std::min(most, map_threads(1, kernels.cost, o.widest));
  const int64_t block = int64_t{threads} * map_vector(o.widest) * map_unroll(N - 1, kernels.cost);
  // See map2: costly functions take vectors of two arrays only.
  const bool vectors =
      (N != 3 || kernels.cost < 3 || o.all_arrays()) && o.start_at_packs(kNoOffsets, map_vector(o.widest));
  const int64_t blocks = blocks_of(n, block);
  launch_operands(kernels.contiguous, o, kNoOffsets,
                  {.grid_x = static_cast<unsigned>(blocks),
                   .block_x = static_cast<unsigned>(threads),
                   .overlaps = may_start_early(*arrays[0], blocks)},
                  args, n, vectors ? static_cast<unsigned>(n / block) : 0u);
}

}  // namespace

void launch_map(const MapKernels& kernels, const Array& out, const Array* a, const MapArgs& args) {
  launch_any<2>(kernels, {&out, a}, args);
}
void launch_map(const MapKernels& kernels, const Array& out, const Array* a, const Array* b, const MapArgs& args) {
  launch_any<3>(kernels, {&out, a, b}, args);
}
void launch_map(const MapKernels& kernels, const Array& out, const Array* a, const Array* b, const Array* c,
                const MapArgs& args) {
  launch_any<4>(kernels, {&out, a, b, c}, args);
}

}  // namespace gpukit::cuda
