// How elementwise kernels cut their work: figures and structs that kernels and the host's plan share.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kMapThreads = 256;
inline constexpr int kMapOperands = 4;

/// Scalars of a map kernel. An input whose pointer is null has the value of its own slot; `code` picks the function
/// where one kernel serves several.
struct alignas(16) MapScalar {
  unsigned char bytes[16];
};
struct MapArgs {
  MapScalar scalars[3];
  int32_t code;
};

/// Contiguous kernels: elements of one access, accesses of one thread, threads of a block. `widest` is the largest item
/// size of the operands. `cost` is -1 for bool results of wider inputs, 0 for a few instructions, 1 for short
/// functions, 2 for long ones, 3 for those that take longer than their memory. Measured on an H200: one access a thread
/// fills the memory best, in small blocks for one array and in large ones for two; what is bound by arithmetic gains
/// from several.
constexpr int map_vector(int widest) { return 16 / widest; }
constexpr int map_unroll(int num_inputs, int cost) {
  if (cost == 3) return num_inputs == 1 ? 2 : 4;
  return cost < 0 || num_inputs == 3 ? 2 : 1;
}
/// The most threads of a block; a kernel whose inputs are scalars but for one takes those of one input.
constexpr int map_threads(int num_inputs, int cost, int widest) {
  if (num_inputs == 1) return cost < 0 ? 256 : 128;
  return num_inputs == 2 && cost == 0 && widest > 1 ? 1024 : 256;
}
/// Blocks per SM the compiler must leave registers for: left to itself it spills to fit more. Costly functions compute
/// several elements side by side, which takes registers too.
constexpr int map_blocks(int itemsize, int threads, int cost) {
  const int of_256 = itemsize == 1 || cost == 3 ? 2 : itemsize == 2 ? 3 : 4;
  return threads >= 1024 ? 1 : of_256 * 256 / threads;
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
