// Plans and launches of the elementwise kernels in map.cuh and map_strided.cuh.
#pragma once

#include <cstring>
#include <span>

#include "gpukit/base/scalar.h"
#include "gpukit/jit/kernel.h"
#include "gpukit/ops/common/map_layout.cuh"
#include "gpukit/ops/common/strided.h"

namespace gpukit::cuda {

/// One launch of a strided kernel.
struct StridedPlan {
  StridedMap map = {};
  unsigned grid = 0;
  unsigned shared_bytes = 0;
  bool whole_tiles = false;  // what map_tiled.cuh asks for, but for the alignment of the operands' first elements
};

/// Pure. `space` has 1 to 2^31 - 1 elements; itemsizes[i] belongs to operand i of the space.
StridedPlan plan_strided(const StridedSpace& space, std::span<const int> itemsizes);

/// The forms of one function. `cost` is the contiguous kernel's kCost; `tiled` may be null.
struct MapKernels {
  const jit::Kernel& contiguous;
  const jit::Kernel& strided;
  int cost = 0;
  const jit::Kernel* tiled = nullptr;
};

inline void set_scalar(MapArgs& args, int slot, const ElementBytes& value) {
  std::memcpy(args.scalars[slot].bytes, value.bytes, sizeof value.bytes);
}

/// Inputs broadcast to out; a null input is the scalar of its slot. Nothing is launched for an empty `out`.
/// Overlap of `out` with an input in another layout is the caller's to avoid.
void launch_map(const MapKernels& kernels, const Array& out, const Array* a, const MapArgs& args);
void launch_map(const MapKernels& kernels, const Array& out, const Array* a, const Array* b, const MapArgs& args);
void launch_map(const MapKernels& kernels, const Array& out, const Array* a, const Array* b, const Array* c,
                const MapArgs& args);

}  // namespace gpukit::cuda
