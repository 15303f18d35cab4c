"""What took how long, and what memory was in use: sections timed by events of their stream, snapshots of the pool.

>>> from pygpukit.profiling import Profiler
>>> profiler = Profiler()
>>> with profiler.record("matmul", flops=2 * 64**3):
...     c = gp.ones((64, 64)) @ gp.ones((64, 64))
>>> profiler.records[0].name
'matmul'
"""

from __future__ import annotations

from pygpukit._core._profile import KernelRecord, MemorySnapshot
from pygpukit.profiling.memory import MemoryProfiler, get_current_memory_usage, print_memory_summary
from pygpukit.profiling.sections import Profiler, ProfilerContext, get_global_profiler, profile_matmul
from pygpukit.profiling.trace import export_chrome_trace, export_combined_trace

__all__ = [
    "KernelRecord",
    "MemoryProfiler",
    "MemorySnapshot",
    "Profiler",
    "ProfilerContext",
    "export_chrome_trace",
    "export_combined_trace",
    "get_current_memory_usage",
    "get_global_profiler",
    "print_memory_summary",
    "profile_matmul",
]
