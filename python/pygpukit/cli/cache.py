"""``pygpukit cache``."""

from __future__ import annotations

from pygpukit import _core
from pygpukit.cli.text import human_bytes, progress

__all__ = ["run"]


def run(action: str) -> int:
    return {"info": _info, "clear": _clear, "warm": _warm}[action]()


def _info() -> int:
    cache = _core._cache_info()
    print(f"folder: {cache['folder'] or '(none)'}")
    print(f"state: {'on' if cache['enabled'] else 'off: ' + cache['reason']}")
    print(f"entries: {cache['entries']}")
    print(f"size: {human_bytes(cache['bytes'])} of {human_bytes(cache['max_bytes'])}")
    return 0


def _clear() -> int:
    print(f"removed {_core._cache_clear()} entries")
    return 0


def _warm() -> int:
    device = _core._configured_device()
    counts = _core._cache_warm(device if device.kind == "cuda" else "cuda", progress("kernel modules"))
    for origin, count in counts.items():
        print(f"{count} modules: {origin}")
    return 0
