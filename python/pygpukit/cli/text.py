"""Output of the commands: colour, sizes, tables, progress."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence

__all__ = ["bold", "coloured", "faint", "green", "human_bytes", "progress", "red", "table", "wrapped", "yellow"]


def coloured() -> bool:
    """The output is a terminal that shows colours and nobody asked for none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _paint(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if coloured() else text


def bold(text: str) -> str:
    return _paint("1", text)


def faint(text: str) -> str:
    return _paint("2", text) if text else ""


def green(text: str) -> str:
    return _paint("32", text)


def yellow(text: str) -> str:
    return _paint("33", text)


def red(text: str) -> str:
    return _paint("31", text)


def wrapped(text: str, indent: int = 2) -> str:
    """The text in lines as wide as the terminal, later ones further in. Words, such as paths, stay whole."""
    width = max(shutil.get_terminal_size().columns, 40)
    return textwrap.fill(
        text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def human_bytes(count: int) -> str:
    """``1.5 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join("  " + line for line in lines)


def progress(label: str) -> Callable[[int, int], None] | None:
    """A callback that shows ``label done/total``, or None when nobody watches."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{label} {done}/{total}", end=end, file=sys.stderr, flush=True)

    return show
