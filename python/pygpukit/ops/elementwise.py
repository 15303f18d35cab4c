"""Elementwise operations on one, two or three arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit._core import (
    add,
    clamp,
    copy_to,
    div,
    floor_divide,
    maximum,
    minimum,
    mul,
    pow,
    remainder,
    sub,
    where,
)
from pygpukit._startup import old_names

if TYPE_CHECKING:
    from pygpukit.compat import add_inplace as add_inplace
    from pygpukit.compat import mul_inplace as mul_inplace

__all__ = [
    "add",
    "clamp",
    "copy_to",
    "div",
    "floor_divide",
    "maximum",
    "minimum",
    "mul",
    "pow",
    "remainder",
    "sub",
    "where",
]
__all__ += ["add_inplace", "mul_inplace"]
__getattr__ = old_names(__name__, __all__)
