"""The memory's speed, measured: a pass that only reads."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import pygpukit as gp
from pygpukit.benchmark.report import Ceiling
from pygpukit.benchmark.timing import Call, Effort, Timer, own_timer, take_turns

__all__ = ["measure_memory", "num_copies", "read_name", "read_timers"]

_SOURCE = """
extern "C" __global__ void read_only(const uint4* data, long long count, unsigned* out) {
  unsigned bits = 0;
  long long stride = (long long)gridDim.x * blockDim.x;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    uint4 a = data[i], b = data[i + stride], c = data[i + 2 * stride], d = data[i + 3 * stride];
    bits ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += stride) {
    uint4 a = data[i];
    bits ^= a.x ^ a.y ^ a.z ^ a.w;
  }
  if (bits == 0x12345679u) out[0] = bits;  // keeps the loads
}

__device__ uint4 load(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
extern "C" __global__ void __launch_bounds__(256) read_tiles(const uint4* data, long long count, unsigned* out) {
  long long first = blockIdx.x * 1024LL + threadIdx.x;
  uint4 v[4];
  for (int i = 0; i < 4; ++i) v[i] = load(data + min(first + i * 256, count - 1));
  unsigned bits = 0;
  for (int i = 0; i < 4; ++i) bits ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  if (bits == 0x12345679u) out[0] = bits;
}
"""
_BLOCK = 512
_BLOCKS_PER_MULTIPROCESSOR = (4, 16)
_TILE, _TILE_BLOCK = 1024, 256  # pieces of 16 bytes for a block of read_tiles, and its threads
_MAX_COPIES = 256
_UNKNOWN_L2 = 64 << 20


def num_copies(nbytes: int) -> int:
    """Copies of inputs of that size that a GPU's L2 cannot hold, twice over; at most 256. One on the CPU."""
    device = gp.default_device()
    if device.kind != "cuda":
        return 1
    l2_bytes = device.properties.l2_cache_size or _UNKNOWN_L2
    return min(max(2, math.ceil(2 * l2_bytes / nbytes) + 1), _MAX_COPIES)


def _has_kernel() -> bool:
    return gp.default_device().kind == "cuda" and gp.is_nvrtc_available()


def read_name() -> str:
    """What the ceiling of the memory is here."""
    return "a kernel that only reads" if _has_kernel() else "gp.sum of float32, which only reads"


def read_timers(arrays: Sequence[gp.GPUArray]) -> list[Timer]:
    """Passes that read every array once; the fastest is the ceiling. Arrays are contiguous, of a multiple of 16 bytes."""
    words = [gp.bitcast(array.reshape(-1), "uint32") for array in arrays]
    if not _has_kernel():
        total = gp.empty((), dtype="float32")
        return [own_timer([functools.partial(gp.sum, gp.bitcast(w, "float32"), out=total) for w in words])]
    strided, tiled = (gp.jit(_SOURCE, func=name) for name in ("read_only", "read_tiles"))
    out = gp.zeros((1,), dtype="uint32")

    def timer(kernel: Any, block: int, blocks: int | None) -> Timer:
        """`blocks`: None for as many as there are tiles."""
        calls: list[Call] = []
        for w in words:
            pieces = w.nbytes // 16
            how = {"grid": blocks or -(-pieces // _TILE), "block": block}
            calls.append(functools.partial(kernel.launch, (w, pieces, out), **how))
        return own_timer(calls)

    multiprocessors = gp.default_device().properties.multiprocessor_count
    timers = [timer(strided, _BLOCK, multiprocessors * blocks) for blocks in _BLOCKS_PER_MULTIPROCESSOR]
    return [*timers, timer(tiled, _TILE_BLOCK, None)]


def measure_memory(effort: Effort) -> Ceiling:
    """GB/s over a buffer that no cache holds: 1 GiB on a GPU, 128 MiB on the CPU."""
    size = 1 << 30 if gp.default_device().kind == "cuda" else 1 << 27
    buffer = gp.tile(gp.random.uniform((1 << 18,), dtype="float32", seed=1), size >> 20)
    best = min(samples.median for samples in take_turns(read_timers([buffer]), effort))
    return Ceiling(rate=size / best / 1e3, by=f"{read_name()}, {size >> 20} MiB")
