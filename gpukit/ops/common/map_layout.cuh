// How elementwise kernels cut their work: figures and structs that kernels and the host's plan share.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kMapThreads = 256;
inline constexpr int kMapOperands = 4;

/// Blocks per SM the compiler must leave registers for in contiguous kernels: left to itself it spills to fit more.
constexpr int map_blocks(int itemsize) { return itemsize == 1 ? 2 : itemsize == 2 ? 3 : 4; }

/// Scalars of a map kernel. An input whose pointer is null has the value of its own slot; `code` picks the function
/// where one kernel serves several.
struct alignas(16) MapScalar {
  unsigned char bytes[16];
};
struct MapArgs {
  MapScalar scalars[3];
  int32_t code;
};

/// Contiguous kernels: elements of one access, and accesses of one thread. `widest` is the largest item size of the
/// operands. `cost` is -1 for bool results of wider inputs, 0 for a few instructions, 1 for short functions, 2 for long
/// ones, 3 for those that take longer than their memory: these ask for the next access before they compute. One access
/// of a single input fills the memory best (0.99 of a copy; two 0.96, four 0.94).
constexpr int map_vector(int widest) { return 16 / widest; }
constexpr int map_unroll(int num_inputs, int cost) {
  if (cost < 0) return 4;
  if (cost == 3) return num_inputs == 1 ? 8 : 4;
  return num_inputs == 1 || cost == 2 ? 1 : 2;
}
constexpr int64_t map_block_elements(int num_inputs, int widest, int cost) {
  return int64_t{kMapThreads} * map_vector(widest) * map_unroll(num_inputs, cost);
}

/// Strided kernels: a thread handles `packs` packs of `pack` neighbours along x. A tile that turns an input round in
/// shared memory is tile_y by tile_x elements, tile_x = lanes * pack.
struct MapTile {
  int pack, lanes, tile_y, packs;
};
constexpr MapTile map_tile(int widest) {
  const int pack = widest >= 4 ? 1 : 4 / widest;
  const int lanes = widest == 4 ? 64 : 32;
  return {pack, lanes, 32 * pack, 32 * pack * lanes / kMapThreads};
}
/// One more pack per row keeps both directions free of bank conflicts.
constexpr int map_tile_bytes(int widest, int itemsize) {
  const MapTile t = map_tile(widest);
  return (t.tile_y * (t.lanes + 1) * t.pack * itemsize + 15) / 16 * 16;
}

/// The strided iteration of one launch. x is the last axis and the output's fastest, y the axis before it; a block
/// covers a rectangle of (y, x) at one place of the outer axes. Counts fit 31 bits: larger spaces are launched in
/// slices. Offsets are 64-bit.
struct StridedMap {
  int32_t rank;         // 2 at least
  int32_t log2_lanes;   // threads along x
  int32_t packs_along;  // where a thread's packs follow one another: 0 along y, 1 along x
  uint32_t tiled;       // bit i: input i goes through shared memory
  uint32_t blocks_x, blocks_y;
  uint32_t shape[kKernelRank];
  int64_t strides[kMapOperands][kKernelRank];
};

}  // namespace gpukit
