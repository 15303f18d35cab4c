"""A bar on a terminal for what takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["progress_bar"]

WIDTH = 30
QUIET_S = 0.5  # what is over sooner shows nothing
STEP_S = 0.1


def progress_bar(what: str) -> Callable[[int, int], None] | None:
    """A function of bytes done and bytes in all, which draws on stderr; None where that is no terminal."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None
    begin = time.monotonic()
    shown = 0.0

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        over = done >= total
        if now - begin < QUIET_S or (not over and now - shown < STEP_S) or (over and not shown):
            return
        shown = now
        filled = WIDTH * done // max(total, 1)
        rate = done / (now - begin) / 1e9
        bar = "#" * filled + "." * (WIDTH - filled)
        stream.write(f"\r{what} [{bar}] {done / 1e9:.1f} of {total / 1e9:.1f} GB, {rate:.1f} GB/s")
        stream.write("\n" if over else "")
        stream.flush()

    return show
