"""Records and snapshots as a file for ui.perfetto.dev or chrome://tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pygpukit._core import _profile
from pygpukit._core._profile import KernelRecord, MemorySnapshot

if TYPE_CHECKING:
    from pygpukit.profiling.memory import MemoryProfiler
    from pygpukit.profiling.sections import Profiler

__all__ = ["export_chrome_trace", "export_combined_trace"]


def export_chrome_trace(
    records: Sequence[KernelRecord],
    path: Any,
    *,
    memory_snapshots: Sequence[MemorySnapshot] | None = None,
    process_name: str = "PyGPUkit",
    thread_name: str = "GPU",
    with_launches: bool = False,
) -> None:
    """Writes trace-event JSON: the records one after another, each where it began or the one before it ended, and the
    snapshots as instants. ``with_launches``: also the trace of the process (``pygpukit.runtime.trace_start``), which has
    every launch and copy on its stream."""
    _profile.save_trace(list(records), path, list(memory_snapshots or []), process_name, thread_name, with_launches)


def export_combined_trace(
    profiler: Profiler, memory_profiler: MemoryProfiler, path: Any, *, process_name: str = "PyGPUkit"
) -> None:
    """The records of a profiler, the snapshots of a memory profiler, and what ran inside the latest ``with profiler:``."""
    export_chrome_trace(
        profiler.records,
        path,
        memory_snapshots=memory_profiler.snapshots,
        process_name=process_name,
        with_launches=profiler._traced,
    )
