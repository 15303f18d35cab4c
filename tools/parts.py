"""Parts of a long piece of work, for machines that are lent for minutes: `PART=2/3` is every third thing from the second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def part_of(things: Sequence[T], part: str) -> list[T]:
    first, _, count = part.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise SystemExit(f"error: part: got {part!r}, wanted I/N with I from 1 to N")
    return list(things)[int(first) - 1 :: int(count)]
