"""``pygpukit simulate``: a described workload through the real scheduler."""

from __future__ import annotations

from pathlib import Path

from pygpukit._core import runtime
from pygpukit.cli.text import columns, wrapped

__all__ = ["EPILOG", "simulate"]

EPILOG = """\
FILE is JSON:

    {"name": "two tenants",
     "scheduler": {"aging": 1000, "max_overtakes": 64},
     "devices":  [{"name": "gpu", "memory": "16 GiB", "streams": 2}],
     "contexts": [{"name": "chat", "priority": 5,
                   "memory_request": "8 GiB", "memory_limit": "8 GiB"},
                  {"name": "batch"}],
     "tasks":    [{"id": "answer", "context": "chat", "arrival_ms": 1,
                   "duration_ms": 4, "memory": "2 GiB", "deadline_ms": 20,
                   "after": ["load"]},
                  {"id": "load", "context": "chat", "duration_ms": 2},
                  {"id": "job", "context": "batch", "duration_ms": 5,
                   "memory": "6 GiB", "count": 4, "every_ms": 1}]}

The class of a context follows from request and limit: equal is guaranteed,
neither is best effort, else burstable. Tasks may also have "priority",
"policy" ("priority", "fifo", "sjf") and "fails". Nothing runs on a device; the
clock is virtual: the same file always gives the same output at one width.
"""


def _timeline(result: runtime.Simulation, width: int | None) -> str:
    """Its text; without a width the time takes what the terminal leaves beside the names and the figures."""
    if width is not None:
        return result.text(width=width)
    narrow = 20
    beside = max((len(line) for line in result.text(width=narrow).splitlines() if "|" in line), default=0) - narrow
    lines = result.text(width=min(max(columns() - beside, narrow), 60)).splitlines()
    return "\n".join(wrapped(line.strip()) if len(line) > columns() else line for line in lines) + "\n"


def simulate(file: str, svg: str | None, as_json: bool, width: int | None) -> int:
    """0 unless the file cannot be read."""
    result = runtime.simulate(Path(file).read_text(encoding="utf-8"))
    if svg is not None:
        Path(svg).write_text(result.svg(), encoding="utf-8", newline="\n")
    print(result.json(indent=1) if as_json else _timeline(result, width), end="\n" if as_json else "")
    return 0
