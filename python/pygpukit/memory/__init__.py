"""Memory pools with quotas: blocks as objects over :class:`pygpukit.runtime.MemoryPool`, which hands out numbers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from pygpukit._core import runtime as _runtime
from pygpukit._core.runtime import MemoryBlock as RustMemoryBlock
from pygpukit._core.runtime import MemoryPool as RustMemoryPool
from pygpukit._core.runtime import PoolStats as RustPoolStats

HAS_RUST_BACKEND = True
_STATS = (
    "quota", "used", "cached", "available", "allocation_count", "reuse_count", "eviction_count", "cudamalloc_count",
    "active_blocks", "free_blocks",
)  # fmt: skip

__all__ = [
    "HAS_RUST_BACKEND",
    "MemoryBlock",
    "MemoryPool",
    "RustMemoryBlock",
    "RustMemoryPool",
    "RustPoolStats",
    "get_default_pool",
    "set_default_pool",
]


class MemoryBlock:
    """A block. One that a pool gave shows where its bytes are now; one made by hand holds what it was given or set."""

    def __init__(
        self,
        id: int,
        size: int,
        device_ptr: int | None = None,
        host_data: bytes | None = None,
        on_gpu: bool = True,
        on_host: bool = False,
        last_access: float | None = None,
    ) -> None:
        self.id = id
        self.size = size
        self._device_ptr = device_ptr
        self._host_data = host_data
        self._on_gpu = on_gpu
        self._on_host = on_host
        self._last_access = time.time() if last_access is None else last_access
        self._pool: RustMemoryPool | None = None

    def _now(self) -> RustMemoryBlock | None:
        return None if self._pool is None else self._pool.get_block(self.id)

    def _check_by_hand(self, name: str) -> None:
        if self._pool is not None:
            raise AttributeError(f"MemoryBlock.{name}: the pool tells it; use pool.evict, restore and touch")

    @property
    def device_ptr(self) -> int | None:
        """None while evicted. Reading it hands the address out: the block is never evicted from then on."""
        block = self._now()
        return self._device_ptr if block is None else block.device_ptr

    @device_ptr.setter
    def device_ptr(self, value: int | None) -> None:
        if self._pool is None:
            self._device_ptr = value
        else:
            self._pool.set_device_ptr(self.id, value)

    @property
    def host_data(self) -> bytes | None:
        """What was set, else the bytes while they lie in host memory."""
        return self._host_data if self._now() is None or self._pool is None else self._pool.get_host_data(self.id)

    @host_data.setter
    def host_data(self, value: bytes | None) -> None:
        if self._pool is None:
            self._host_data = value
        elif value is None:
            self._pool.clear_host_data(self.id)
        else:
            self._pool.set_host_data(self.id, value)

    @property
    def on_gpu(self) -> bool:
        block = self._now()
        return self._on_gpu if block is None else block.on_gpu

    @on_gpu.setter
    def on_gpu(self, value: bool) -> None:
        self._check_by_hand("on_gpu")
        self._on_gpu = value

    @property
    def on_host(self) -> bool:
        block = self._now()
        return self._on_host if block is None else block.on_host

    @on_host.setter
    def on_host(self, value: bool) -> None:
        self._check_by_hand("on_host")
        self._on_host = value

    @property
    def last_access(self) -> float:
        """Seconds since 1970."""
        block = self._now()
        return self._last_access if block is None else block.last_access

    @last_access.setter
    def last_access(self, value: float) -> None:
        self._check_by_hand("last_access")
        self._last_access = value

    def touch(self) -> None:
        """Marks the block most recently used."""
        if self._pool is not None:
            self._pool.touch(self.id)
        else:
            self._last_access = time.time()

    def __repr__(self) -> str:
        return f"MemoryBlock(id={self.id}, size={self.size}, on_gpu={self.on_gpu}, on_host={self.on_host})"


class MemoryPool:
    """Blocks under a quota over real memory of a device. See :class:`pygpukit.runtime.MemoryPool`.

    ``used`` counts the bytes of live blocks on the device, ``cached`` those kept for reuse; both together never exceed
    the quota, and cached ones are given up when room is needed. A size is a number or a text such as "16MB".
    """

    SIZE_CLASSES = RustMemoryPool.SIZE_CLASSES

    def __init__(self, quota: int | str, enable_eviction: bool = False, device: Any = None) -> None:
        self._pool = RustMemoryPool(quota, enable_eviction, device)

    @property
    def quota(self) -> int:
        return self._pool.quota

    @property
    def used(self) -> int:
        return self._pool.used

    @property
    def cached(self) -> int:
        return self._pool.cached

    @property
    def available(self) -> int:
        """quota - used."""
        return self._pool.available

    @property
    def host_limit(self) -> int:
        """The most host bytes that evicted blocks may take; 0: only the device's own limit."""
        return self._pool.host_limit

    @host_limit.setter
    def host_limit(self, size: int | str) -> None:
        self._pool.host_limit = size

    def allocate(self, size: int | str) -> MemoryBlock:
        """A block of at least ``size`` bytes, rounded up to SIZE_CLASSES. MemoryError when there is no room."""
        number = self._pool.allocate(size)
        block = MemoryBlock(number, self._pool.get_block_size(number))
        block._pool = self._pool
        return block

    def _number(self, op: str, block: MemoryBlock) -> int:
        if block._pool is not self._pool:
            raise ValueError(f"{op}: block must be one that this pool allocated, got {block!r} of another")
        return block.id

    def free(self, block: MemoryBlock) -> None:
        """Its memory is kept for reuse."""
        self._pool.free(self._number("free", block))

    def touch(self, block: MemoryBlock) -> None:
        """Marks the block most recently used."""
        self._pool.touch(self._number("touch", block))

    def evict(self, block: MemoryBlock) -> None:
        """Moves the bytes to host memory."""
        self._pool.evict(self._number("evict", block))

    def restore(self, block: MemoryBlock) -> None:
        """Brings the bytes back."""
        self._pool.restore(self._number("restore", block))

    def write(self, block: MemoryBlock, data: Any) -> None:
        """Copies an array's bytes into the block; an evicted one is restored first."""
        self._pool.write(self._number("write", block), np.ascontiguousarray(data))

    def read(self, block: MemoryBlock, dtype: Any) -> np.ndarray[Any, Any]:
        """The block as ``block.size // itemsize`` elements."""
        kind = np.dtype(dtype)
        bytes_ = self._pool.read(self._number("read", block))
        found: np.ndarray[Any, Any] = np.frombuffer(bytes_, kind, block.size // kind.itemsize).copy()
        return found

    def stats(self) -> dict[str, int]:
        stats = self._pool.stats()
        return {name: getattr(stats, name) for name in _STATS}

    def clear(self) -> None:
        """Drops all blocks."""
        self._pool.clear()

    def __repr__(self) -> str:
        return repr(self._pool)


_default: MemoryPool | RustMemoryPool | None = None


def set_default_pool(pool: MemoryPool | RustMemoryPool | None) -> None:
    """Arrays of the pool's device allocate from it where no session says otherwise. None: from none."""
    global _default
    _runtime.memory.set_default_pool(pool._pool if isinstance(pool, MemoryPool) else pool)
    _default = pool


def get_default_pool() -> MemoryPool | RustMemoryPool | None:
    """The pool that was set, here or in :mod:`pygpukit.runtime.memory`, or None."""
    current = _runtime.memory.get_default_pool()
    return _default if isinstance(_default, MemoryPool) and _default._pool is current else current
