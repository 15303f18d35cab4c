"""``pygpukit top``: what another process does, live."""

from __future__ import annotations

import os
import shutil
import sys
import time

from pygpukit._core import runtime
from pygpukit.cli.text import coloured, complain

__all__ = ["EPILOG", "top"]

EPILOG = """\
The program to look at publishes its state:

    from pygpukit import runtime
    runtime.publish_snapshot()
    # or: runtime.publish_snapshot("state.json", interval_s=0.5)

Without a path the file lies in the user's cache folder
(pygpukit/run/PID.json), where this command finds it, the freshest first.
Ctrl+C ends the command. NO_COLOR turns colours off.
"""


def _find(path: str | None, pid: int | None) -> str | None:
    """The file to show; None, with a message, when there is none."""
    if path is not None:
        return path
    published = runtime.published_snapshots()
    for entry in published:
        if entry["process_id"] == pid or (pid is None and not entry["stale"]):
            return str(entry["path"])
    whose = "no program publishes its" if pid is None else f"process {pid} publishes no"
    complain(f"pygpukit top: {whose} state; call pygpukit.runtime.publish_snapshot() in it")
    return None


def top(path: str | None, pid: int | None, once: bool, interval: float, as_json: bool) -> int:
    """Shows until interrupted, or once. 1 when there is nothing to show."""
    where = _find(path, pid)
    if where is None:
        return 1
    live = not once and sys.stdout.isatty()
    previous: str | None = None
    latest: str | None = None
    while True:
        snapshot = runtime._read_snapshot(where)
        if snapshot != latest:
            previous, latest = latest, snapshot
        if as_json:
            print(snapshot, flush=True)
        else:
            size = shutil.get_terminal_size((100, 24))
            age = max(time.time() - os.stat(where).st_mtime, 0.0)
            lines = runtime._top_text(snapshot, previous, size.columns, coloured()).splitlines()
            if live:
                # Home, as many lines as fit with the rest of each cleared, then what is below.
                print("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines[: size.lines - 2]), end="\x1b[J")
            else:
                print("\n".join(lines))
            print(f"written {age:.1f} s ago", flush=True)
        if once:
            return 0
        time.sleep(interval)
