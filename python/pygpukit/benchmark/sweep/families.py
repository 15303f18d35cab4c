"""All families, in the order in which they run."""

from __future__ import annotations

from pygpukit.benchmark.sweep.family import Family
from pygpukit.benchmark.sweep.layers import LAYER_FAMILIES
from pygpukit.benchmark.sweep.moves import MOVE_FAMILIES
from pygpukit.benchmark.sweep.products import PRODUCT_FAMILIES
from pygpukit.benchmark.sweep.rows import ROW_FAMILIES
from pygpukit.benchmark.sweep.transforms import TRANSFORM_FAMILIES
from pygpukit.errors import ArgumentError

__all__ = ["FAMILIES", "find_families"]

FAMILIES = [*ROW_FAMILIES, *MOVE_FAMILIES, *LAYER_FAMILIES, *TRANSFORM_FAMILIES, *PRODUCT_FAMILIES]


def find_families(names: str | None = None, part: str | None = None) -> list[Family]:
    """Those named, separated by commas, or all; of these every N-th, from the I-th on, for a `part` of "I/N"."""
    known = {family.name: family for family in FAMILIES}
    wanted = [name.strip() for name in names.split(",") if name.strip()] if names else list(known)
    for name in wanted:
        if name not in known:
            raise ArgumentError(f"sweep: family: got {name!r}, wanted one of {', '.join(known)}")
    found = [known[name] for name in wanted]
    if part is None:
        return found
    first, _, count = part.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise ArgumentError(f"sweep: slice: got {part!r}, wanted I/N with I from 1 to N")
    return found[int(first) - 1 :: int(count)]
