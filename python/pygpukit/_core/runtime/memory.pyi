from typing import Any, Final, SupportsIndex

import pygpukit._core
import pygpukit.typing


class EvictionGroup:
    """
    Arrays of pools that evict which leave the device and come back together: a model with its graphs. What a graph uses keeps its address.
    """

    def __init__(self, name: str = '', device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> pygpukit._core.Device: ...

    def add(self, array: pygpukit._core.GPUArray) -> None:
        """
        RuntimeError when its pool does not evict, it is evicted, or it belongs to another group.
        """

    def evict(self) -> int:
        """
        Moves all to host memory, or raises and moves none. Waits for running work. The device bytes that became free.
        """

    def restore(self) -> None:
        """
        Brings all back, or raises MemoryError and brings none. A launch or replay does it by itself.
        """

    @property
    def resident(self) -> bool: ...

    def set_priority(self, priority: int) -> None:
        """Higher ones leave later; 0 at the start."""

    def stats(self) -> dict[str, Any]:
        """blocks, bytes, resident."""

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

class Pin:
    """Keeps an array on its device, where it is, until released."""

    def release(self) -> None:
        """The array may be evicted again. Once is enough."""

    def __enter__(self) -> Pin: ...

    def __exit__(self, *args: object) -> None: ...

def pin(array: pygpukit._core.GPUArray) -> Pin:
    """
    Restores the array where needed and keeps it on its device until the pin is released.
    """

def set_eviction_priority(array: pygpukit._core.GPUArray, priority: int) -> None:
    """
    Higher ones leave later; 0 at the start. Views share it with their array.
    """

class MemoryBlock:
    """A block of a MemoryPool as it was when it was asked for."""

    @property
    def id(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def device_ptr(self) -> int | None:
        """
        None while evicted. Reading it hands the address out: the block is never evicted from then on.
        """

    @property
    def on_gpu(self) -> bool: ...

    @property
    def on_host(self) -> bool: ...

    @property
    def last_access(self) -> float:
        """Seconds since 1970."""

    def is_available(self) -> bool: ...

    def is_evicted(self) -> bool: ...

    def __repr__(self) -> str: ...

class PoolStats:
    """Counts of a MemoryPool."""

    @property
    def quota(self) -> int: ...

    @property
    def used(self) -> int:
        """Device bytes of live blocks as handed out."""

    @property
    def cached(self) -> int:
        """Device bytes kept for reuse; given up when room is needed."""

    @property
    def available(self) -> int:
        """quota - used."""

    @property
    def allocation_count(self) -> int: ...

    @property
    def reuse_count(self) -> int: ...

    @property
    def eviction_count(self) -> int: ...

    @property
    def cudamalloc_count(self) -> int:
        """Blocks that were not reused."""

    @property
    def active_blocks(self) -> int: ...

    @property
    def free_blocks(self) -> int: ...

    def __repr__(self) -> str: ...

class MemoryPool:
    """
    Blocks by number under a quota, over real memory of a device. With enable_eviction the least recently used ones go to host memory to make room; their bytes stay. Used and cached bytes never exceed the quota.
    """

    def __init__(self, quota: SupportsIndex | str, enable_eviction: bool = False, device: pygpukit.typing.DeviceLike | None = None) -> None: ...

    @property
    def quota(self) -> int: ...

    @property
    def used(self) -> int:
        """Device bytes of live blocks as handed out."""

    @property
    def cached(self) -> int:
        """Device bytes kept for reuse; given up when room is needed."""

    @property
    def available(self) -> int:
        """quota - used."""

    @property
    def enable_eviction(self) -> bool: ...

    @property
    def device(self) -> pygpukit._core.Device: ...

    @property
    def host_limit(self) -> int:
        """
        The most host bytes that evicted blocks may take; 0: only the device's own limit.
        """

    @host_limit.setter
    def host_limit(self, arg: SupportsIndex | str, /) -> None: ...

    def allocate(self, size: SupportsIndex | str) -> int:
        """
        The number of a new block; the first is 0. Rounded up to SIZE_CLASSES, above them to a whole MiB. MemoryError when the quota or the device does not allow it.
        """

    def free(self, id: int) -> None:
        """Its memory is kept for reuse."""

    def touch(self, id: int) -> None:
        """Marks the block most recently used."""

    def evict(self, id: int) -> None:
        """Moves the bytes to host memory."""

    def restore(self, id: int) -> None:
        """Brings the bytes back, perhaps at another address."""

    def write(self, id: int, data: pygpukit.typing.HostBuffer) -> None:
        """Copies a contiguous buffer into the block; restores it first."""

    def read(self, id: int, size: SupportsIndex | str | None = None) -> bytes:
        """The bytes of the block, all or the first `size`."""

    def get_block(self, id: int) -> MemoryBlock | None:
        """The block as it is now, or None."""

    def stats(self) -> PoolStats: ...

    def clear(self) -> None:
        """Drops all blocks."""

    def set_device_ptr(self, id: int, ptr: int | None) -> None:
        """
        A pointer of the caller's, shown in place of the block's own; None: its own again. The pool does not use it.
        """

    def set_host_data(self, id: int, data: bytes) -> None:
        """Bytes of the caller's, kept beside the block."""

    def get_host_data(self, id: int) -> bytes | None:
        """What was set, else the bytes of an evicted block, else None."""

    def clear_host_data(self, id: int) -> None: ...

    def get_block_size(self, id: int) -> int: ...

    def is_block_on_gpu(self, id: int) -> bool: ...

    def __repr__(self) -> str: ...

    SIZE_CLASSES: Final[tuple[int, ...]] = ...
    """(arg: object, /) -> tuple[int, ...]"""

def set_default_pool(pool: MemoryPool | None = None) -> None:
    """
    Arrays of the pool's device allocate from it where no session says otherwise; None: from none.
    """

def get_default_pool() -> MemoryPool:
    """The pool that was set, or None."""
