// The Tensor Memory Accelerator (TMA): boxes of tensors and plain bytes between global and shared memory, behind the
// back of the threads. One instruction a function; nothing here waits for more than it says.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// A tile map as the driver encodes it; passed by value in a __grid_constant__ parameter.
struct alignas(64) TileMap {
  uint64_t words[16];
};
GPUKIT_DEVICE void tile_prefetch(const TileMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
/// Box at element (x, y) of batch z into shared memory; what lies outside is zero. `barrier` counts the whole box.
GPUKIT_DEVICE void tile_load(uint32_t to, const TileMap* map, uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// The same of a tensor of four axes.
GPUKIT_DEVICE void tile_load_4d(uint32_t to, const TileMap* map, uint32_t barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
/// tile_load with a policy for the L2.
GPUKIT_DEVICE void tile_load(uint32_t to, const TileMap* map, uint32_t barrier, int x, int y, int z, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}
/// Into the same place of every block of the cluster that `blocks` has a bit for, each of which counts it at its own
/// `barrier`.
GPUKIT_DEVICE void tile_load_multicast(uint32_t to, const TileMap* map, uint32_t barrier, int x, int y, int z,
                                       uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}
/// Bytes of global into shared memory, a multiple of 16 of both.
GPUKIT_DEVICE void copy_bytes(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
/// For what is read once: it is the first to leave the L2.
GPUKIT_DEVICE uint64_t cache_policy_once() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// Box from shared memory to element (x, y) of batch z; what lies outside is dropped.
GPUKIT_DEVICE void tile_store(const TileMap* map, uint32_t from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
}
GPUKIT_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until all but the last `Pending` groups of this thread's stores have read shared memory.
template <int Pending>
GPUKIT_DEVICE void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
GPUKIT_DEVICE void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Makes this thread's writes to shared memory visible to the copy engine.
GPUKIT_DEVICE void shared_publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Asks for bytes to be in the L2 soon, a multiple of 16.
GPUKIT_DEVICE void prefetch_bytes(const void* p, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
}
/// The same of a box.
GPUKIT_DEVICE void tile_ask(const TileMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}

}  // namespace gpukit
