"""Sections of a program, timed by events on the stream they run on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pygpukit._core import CudaEvent, _profile, event_elapsed_ms, runtime
from pygpukit._core._profile import KernelRecord
from pygpukit.errors import Error
from pygpukit.profiling.trace import export_chrome_trace

__all__ = ["Profiler", "ProfilerContext", "get_global_profiler", "profile_matmul"]


class ProfilerContext:
    """Times what the block submits to the current stream. Nothing waits until a time is asked for."""

    def __init__(
        self, name: str = "kernel", *, flops: float | None = None, bytes_transferred: float | None = None
    ) -> None:
        self.name = name
        self.flops = flops
        self.bytes_transferred = bytes_transferred
        self.timestamp = time.time()
        self._events: tuple[CudaEvent, CudaEvent] | None = None
        self._over = False

    def __enter__(self) -> ProfilerContext:
        self._events = (CudaEvent(), CudaEvent())
        self._over = False
        self.timestamp = time.time()
        self._events[0].record()
        return self

    def __exit__(self, *args: object) -> None:
        if self._events is not None:
            self._events[1].record()
            self._over = True

    @property
    def elapsed_ms(self) -> float:
        """Waits for the end of the section."""
        if self._events is None or not self._over:
            raise Error(f"ProfilerContext: the time of {self.name!r} is known after its `with` block")
        start, stop = self._events
        stop.synchronize()
        return event_elapsed_ms(start, stop)

    @property
    def elapsed_us(self) -> float:
        """The same in microseconds."""
        return self.elapsed_ms * 1e3

    @property
    def tflops(self) -> float | None:
        """None without ``flops``."""
        return self.to_record().tflops

    @property
    def bandwidth_gb_s(self) -> float | None:
        """None without ``bytes_transferred``."""
        return self.to_record().bandwidth_gb_s

    def to_record(self) -> KernelRecord:
        """The section as a record. Waits for its end."""
        elapsed = self.elapsed_ms
        return KernelRecord(self.name, elapsed, elapsed * 1e3, self.flops, self.bytes_transferred, self.timestamp)


class Profiler:
    """Collects timed sections. ``with profiler:`` also traces every launch and copy of the process for the export; there
    is one trace at a time.

    ``use_native`` is taken as in 0.2; times come from events of the core either way.
    """

    def __init__(self, *, use_native: bool = True) -> None:
        self.using_native = use_native
        self._records: list[KernelRecord] = []
        self._open: list[ProfilerContext] = []
        self._traced = False
        self._lock = threading.Lock()

    def __enter__(self) -> Profiler:
        runtime.trace_start()
        self._traced = True
        return self

    def __exit__(self, *args: object) -> None:
        with suppress(Error):  # the block may have ended it
            runtime.trace_stop()

    @contextmanager
    def record(
        self, name: str = "kernel", *, flops: float | None = None, bytes_transferred: float | None = None
    ) -> Iterator[ProfilerContext]:
        """Times the block. Its record is kept when the block ends, by an exception too."""
        section = ProfilerContext(name, flops=flops, bytes_transferred=bytes_transferred)
        with section:
            try:
                yield section
            finally:
                self._open.append(section)

    @property
    def records(self) -> list[KernelRecord]:
        """In the order in which the sections ended. Waits for the end of each."""
        with self._lock:
            while self._open:
                self._records.append(self._open[0].to_record())
                del self._open[0]
            return self._records

    @property
    def total_time_ms(self) -> float:
        """Of all records."""
        return sum(record.elapsed_ms for record in self.records)

    def clear(self) -> None:
        """Forgets the records."""
        with self._lock:
            self._records = []
            self._open = []

    def summary_by_name(self) -> dict[str, dict[str, Any]]:
        """{name: {count, total_ms, avg_ms, min_ms, max_ms}}"""
        return _profile.summary_by_name(self.records)

    def print_summary(self) -> None:
        """Prints a table by name, the longest total first."""
        print(_profile.summary_text(self.records), end="")

    def export_chrome_trace(self, path: Any) -> None:
        """Writes the records, and what the process ran inside the latest ``with profiler:``, for ui.perfetto.dev."""
        export_chrome_trace(self.records, path, with_launches=self._traced)


_global: Profiler | None = None


def get_global_profiler() -> Profiler:
    """The profiler of the process, the same one every time."""
    global _global
    if _global is None:
        _global = Profiler()
    return _global


def profile_matmul(
    M: int, N: int, K: int, A: Any, B: Any, matmul_fn: Callable[[Any, Any], Any], warmup: int = 3, iterations: int = 10
) -> KernelRecord:
    """The median of ``matmul_fn(A, B)`` over ``iterations`` calls, with its work: 2 M N K operations."""
    for _ in range(warmup):
        matmul_fn(A, B)
    profiler = Profiler()
    moved = (M * K + K * N + M * N) * A.itemsize
    for _ in range(max(iterations, 1)):
        with profiler.record(f"matmul_{M}x{N}x{K}", flops=2.0 * M * N * K, bytes_transferred=moved):
            matmul_fn(A, B)
    ordered = sorted(profiler.records, key=lambda record: record.elapsed_ms)
    return ordered[len(ordered) // 2]
