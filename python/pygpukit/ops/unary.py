"""Functions of one array."""

from __future__ import annotations

from pygpukit._core import (
    abs,
    cos,
    exp,
    log,
    neg,
    relu,
    rsqrt,
    sin,
    sqrt,
)

__all__ = [
    "abs",
    "cos",
    "exp",
    "log",
    "neg",
    "relu",
    "rsqrt",
    "sin",
    "sqrt",
]
