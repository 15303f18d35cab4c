"""Output of the commands: colour, sizes, tables, progress."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

__all__ = [
    "Folder", "bold", "coloured", "columns", "complain", "ending", "faint", "fitting", "fold_log", "green", "has_width",
    "human_bytes", "progress", "red", "short_reason", "table", "wrapped", "yellow",
]  # fmt: skip


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


def columns() -> int:
    """Of the terminal, or what COLUMNS says."""
    return max(shutil.get_terminal_size().columns, 40)


def wrapped(text: str, indent: int = 2) -> str:
    """The text in lines as wide as the terminal, later ones further in. Words, such as paths, stay whole."""
    return textwrap.fill(
        text, columns(), initial_indent=" " * indent, subsequent_indent=" " * (indent + 2),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def has_width(stream: TextIO | None = None) -> bool:
    """Somebody looks at the output, or has named a width with COLUMNS. Into a pipe lines go as they are."""
    return (stream or sys.stdout).isatty() or bool(os.environ.get("COLUMNS"))


def fitting(text: str, stream: TextIO | None = None) -> str:
    """The text in lines as wide as the terminal, where there is one."""
    if not has_width(stream):
        return text
    return "\n".join(wrapped(line, 0) if len(line) > columns() else line for line in text.splitlines())


def complain(text: str) -> None:
    """A message for people, on the error output."""
    print(fitting(text, sys.stderr), file=sys.stderr)


def short_reason(text: str) -> str:
    """A reason without the list of what was tried, which the warning at the first array has, and ``pygpukit doctor``."""
    return text.partition(":")[0].partition(";")[0]


class _FoldedLines(logging.Handler):
    """Messages of the library in lines that fit."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def fold_log() -> None:
    """The library's messages as a command shows them, unless the program around it has handlers of its own."""
    logger = logging.getLogger("pygpukit")
    if not logger.hasHandlers():
        logger.addHandler(_FoldedLines())


class Folder:
    """Text that comes piece by piece, in lines of whole words. Passes it through where nobody has named a width: into a
    pipe goes what the model wrote."""

    def __init__(self) -> None:
        self._folds = has_width()
        self._width = columns()
        self._used = 0
        self._word = ""

    def push(self, piece: str) -> str:
        if not self._folds:
            return piece
        out = ""
        for character in piece:
            if character not in " \n":
                self._word += character
                continue
            out += self._take_word()
            if character == "\n" or self._used + 1 >= self._width:
                out += "\n"
                self._used = 0
            else:
                out += " "
                self._used += 1
        return out

    def flush(self) -> str:
        return self._take_word()

    def _take_word(self) -> str:
        word, self._word = self._word, ""
        before = "\n" if self._used and self._used + len(word) > self._width else ""
        self._used = len(word) if before else self._used + len(word)
        return before + word


def ending(suffix: str) -> Callable[[str], str]:
    """The type of an argument that names a file to write: of this suffix, or of none, such as /dev/stdout."""

    def convert(text: str) -> str:
        if Path(text).suffix.lower() not in ("", suffix):
            raise argparse.ArgumentTypeError(f"must end in {suffix}, the format that is written, got {text}")
        return text

    return convert


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
