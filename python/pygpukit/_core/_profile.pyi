"""Records of pygpukit.profiling; internal."""

from collections.abc import Sequence
from typing import Any

import pygpukit.typing


class KernelRecord:
    """What ran between two events."""

    def __init__(self, name: str, elapsed_ms: float, elapsed_us: float, flops: float | None = None, bytes_transferred: float | None = None, timestamp: float | None = None) -> None:
        """`timestamp`: of its start, seconds since 1970; None: now."""

    @staticmethod
    def from_native(native: Any) -> KernelRecord:
        """A copy of a record, or of a ProfilerContext that is over."""

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def elapsed_ms(self) -> float: ...

    @elapsed_ms.setter
    def elapsed_ms(self, arg: float, /) -> None: ...

    @property
    def elapsed_us(self) -> float: ...

    @elapsed_us.setter
    def elapsed_us(self, arg: float, /) -> None: ...

    @property
    def flops(self) -> float | None: ...

    @flops.setter
    def flops(self, arg: float | None, /) -> None: ...

    @property
    def bytes_transferred(self) -> float | None: ...

    @bytes_transferred.setter
    def bytes_transferred(self, arg: float | None, /) -> None: ...

    @property
    def timestamp(self) -> float:
        """Of its start, seconds since 1970."""

    @timestamp.setter
    def timestamp(self, arg: float, /) -> None: ...

    @property
    def tflops(self) -> float | None:
        """None where the work is not known or took no time."""

    @property
    def bandwidth_gb_s(self) -> float | None:
        """None where the bytes are not known or it took no time."""

    def __repr__(self) -> str: ...

def summary_by_name(records: Sequence[KernelRecord]) -> dict[str, Any]:
    """{name: {count, total_ms, avg_ms, min_ms, max_ms}}"""

def summary_text(records: Sequence[KernelRecord]) -> str:
    """The same as a table."""

class MemorySnapshot:
    """What a pool has at one moment, in bytes."""

    def __init__(self, name: str = '', timestamp: float | None = None, quota: int = 0, used: int = 0, cached: int = 0, available: int = 0, active_blocks: int = 0, free_blocks: int = 0, allocation_count: int = 0, reuse_count: int = 0, cudamalloc_count: int = 0) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def timestamp(self) -> float:
        """Seconds since 1970."""

    @timestamp.setter
    def timestamp(self, arg: float, /) -> None: ...

    @property
    def quota(self) -> int: ...

    @quota.setter
    def quota(self, arg: int, /) -> None: ...

    @property
    def used(self) -> int: ...

    @used.setter
    def used(self, arg: int, /) -> None: ...

    @property
    def cached(self) -> int: ...

    @cached.setter
    def cached(self, arg: int, /) -> None: ...

    @property
    def available(self) -> int: ...

    @available.setter
    def available(self, arg: int, /) -> None: ...

    @property
    def active_blocks(self) -> int: ...

    @active_blocks.setter
    def active_blocks(self, arg: int, /) -> None: ...

    @property
    def free_blocks(self) -> int: ...

    @free_blocks.setter
    def free_blocks(self, arg: int, /) -> None: ...

    @property
    def allocation_count(self) -> int: ...

    @allocation_count.setter
    def allocation_count(self, arg: int, /) -> None: ...

    @property
    def reuse_count(self) -> int: ...

    @reuse_count.setter
    def reuse_count(self, arg: int, /) -> None: ...

    @property
    def cudamalloc_count(self) -> int:
        """Blocks that were not reused."""

    @cudamalloc_count.setter
    def cudamalloc_count(self, arg: int, /) -> None: ...

    @property
    def used_mb(self) -> float:
        """In MiB."""

    @property
    def cached_mb(self) -> float:
        """In MiB."""

    @property
    def available_mb(self) -> float:
        """In MiB."""

    @property
    def utilization(self) -> float:
        """used / quota"""

    @property
    def reuse_rate(self) -> float:
        """reuses / (reuses + new blocks)"""

    def __repr__(self) -> str: ...

def memory_snapshot(name: str = '', device: pygpukit.typing.DeviceLike | None = None) -> MemorySnapshot:
    """
    Of the session's account, else the default pool's, else the pool of the whole device.
    """

def memory_text(snapshots: Sequence[MemorySnapshot]) -> str:
    """A table."""

def memory_difference_text(before: MemorySnapshot, after: MemorySnapshot) -> str:
    """Lines."""

def save_trace(records: Sequence[KernelRecord], path: pygpukit.typing.PathLike, snapshots: Sequence[MemorySnapshot], process_name: str, thread_name: str, with_launches: bool) -> None:
    """
    Writes trace-event JSON. with_launches: the trace of the process goes in too.
    """
