"""Elementwise operations on one, two or three arrays."""

from __future__ import annotations

from pygpukit._core import (
    add,
    add_inplace,
    clamp,
    copy_to,
    div,
    floor_divide,
    maximum,
    minimum,
    mul,
    mul_inplace,
    pow,
    remainder,
    sub,
    where,
)

__all__ = [
    "add",
    "add_inplace",
    "clamp",
    "copy_to",
    "div",
    "floor_divide",
    "maximum",
    "minimum",
    "mul",
    "mul_inplace",
    "pow",
    "remainder",
    "sub",
    "where",
]
