"""Snapshots of the memory pool."""

from __future__ import annotations

from typing import Any

from pygpukit._core import _profile
from pygpukit._core._profile import MemorySnapshot

__all__ = ["MemoryProfiler", "get_current_memory_usage", "print_memory_summary"]

_FIELDS = ("quota", "used", "cached", "available", "active_blocks", "free_blocks", "allocation_count", "reuse_count",
           "cudamalloc_count")  # fmt: skip


class MemoryProfiler:
    """Keeps snapshots of what new memory is charged to: the session's context, the default pool, else the whole device."""

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self.snapshots: list[MemorySnapshot] = []

    def snapshot(self, name: str = "") -> MemorySnapshot:
        """Takes one and keeps it."""
        taken = _profile.memory_snapshot(name, self._device)
        self.snapshots.append(taken)
        return taken

    def get_snapshot(self, name: str) -> MemorySnapshot | None:
        """The first one of that name, or None."""
        return next((snapshot for snapshot in self.snapshots if snapshot.name == name), None)

    @property
    def peak_used_bytes(self) -> int:
        """The most that any snapshot saw in use."""
        return max((snapshot.used for snapshot in self.snapshots), default=0)

    @property
    def peak_used_mb(self) -> float:
        """The same in MiB."""
        return self.peak_used_bytes / 2**20

    def _find(self, which: str | MemorySnapshot) -> MemorySnapshot:
        if isinstance(which, MemorySnapshot):
            return which
        found = self.get_snapshot(which)
        if found is None:
            names = ", ".join(repr(snapshot.name) for snapshot in self.snapshots) or "none"
            raise KeyError(f"MemoryProfiler: no snapshot {which!r}; there are: {names}")
        return found

    def diff(self, a: str | MemorySnapshot, b: str | MemorySnapshot) -> dict[str, float]:
        """From ``a`` to ``b``, each a snapshot or the name of one."""
        before, after = self._find(a), self._find(b)
        return {
            "used_delta": after.used - before.used,
            "cached_delta": after.cached - before.cached,
            "active_blocks_delta": after.active_blocks - before.active_blocks,
            "free_blocks_delta": after.free_blocks - before.free_blocks,
            "allocation_delta": after.allocation_count - before.allocation_count,
            "time_delta": after.timestamp - before.timestamp,
        }

    def clear(self) -> None:
        """Forgets the snapshots."""
        self.snapshots = []

    def print_report(self) -> None:
        """Prints a table of the snapshots."""
        print(_profile.memory_text(self.snapshots), end="")

    def print_diff(self, a: str | MemorySnapshot, b: str | MemorySnapshot) -> None:
        """Prints what changed from ``a`` to ``b``."""
        print(_profile.memory_difference_text(self._find(a), self._find(b)), end="")


def get_current_memory_usage(device: Any = None) -> dict[str, int]:
    """The figures of a snapshot taken now."""
    now = _profile.memory_snapshot("now", device)
    return {name: getattr(now, name) for name in _FIELDS}


def print_memory_summary(device: Any = None) -> None:
    """Prints a snapshot taken now."""
    print(_profile.memory_text([_profile.memory_snapshot("now", device)]), end="")
