// What the sm_90a products are made of: barriers and tile copies in shared memory, and the warpgroup products.
// One instruction a function; nothing here waits for more than it says.
#pragma once
#include "gpukit/ops/common/mma.cuh"

namespace gpukit {

/// A tile map as the driver encodes it; passed by value in a __grid_constant__ parameter.
struct alignas(64) TileMap {
  uint64_t words[16];
};

GPUKIT_DEVICE void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/// Makes initialised barriers visible to the copy engine.
GPUKIT_DEVICE void barrier_publish() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
GPUKIT_DEVICE void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and makes the phase wait for `bytes` of copies as well.
GPUKIT_DEVICE void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
GPUKIT_DEVICE void barrier_wait(uint32_t barrier, int phase) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra "
      "DONE%=;\nbra WAIT%=;\nDONE%=:\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}
/// Waits for the `threads` threads that name the same barrier `id` (1 to 15).
GPUKIT_DEVICE void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Counts as one of them without waiting.
GPUKIT_DEVICE void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

GPUKIT_DEVICE void tile_prefetch(const TileMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
/// Box at element (x, y) of batch z into shared memory; what lies outside is zero. `barrier` counts the whole box.
GPUKIT_DEVICE void tile_load(uint32_t to, const TileMap* map, uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// The same with a policy for the L2.
GPUKIT_DEVICE void tile_load(uint32_t to, const TileMap* map, uint32_t barrier, int x, int y, int z, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
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

/// Four 8 x 8 matrices of 16-bit elements to shared memory; lane i gives the address of row i % 8 of matrix i / 8.
GPUKIT_DEVICE void store_matrices(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}
GPUKIT_DEVICE void store_matrices_transposed(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}

/// An 8 x 8 matrix of 16-bit elements, a pair of row lane / 4 in each lane, transposed.
GPUKIT_DEVICE uint32_t turn_matrix(uint32_t pair) {
  uint32_t turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}

/// Asks for bytes to be in the L2 soon, a multiple of 16.
GPUKIT_DEVICE void prefetch_bytes(const void* p, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
}

/// The same of a box.
GPUKIT_DEVICE void tile_ask(const TileMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}

template <int Registers>
GPUKIT_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
GPUKIT_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

GPUKIT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GPUKIT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
GPUKIT_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Nothing that reads the sums may be moved before this.
template <int Registers>
GPUKIT_DEVICE void keep_sums(float (&d)[Registers]) {
#pragma unroll
  for (int i = 0; i < Registers; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int Registers>
GPUKIT_DEVICE void keep_sums(int32_t (&d)[Registers]) {
#pragma unroll
  for (int i = 0; i < Registers; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

/// A shared tile with 128-byte swizzle as wgmma reads it: `leading` and `stride` bytes between its 8-row groups.
GPUKIT_DEVICE uint64_t tile_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | uint64_t{1} << 62;
}

}  // namespace gpukit
