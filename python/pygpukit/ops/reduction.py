"""Reductions and softmax."""

from __future__ import annotations

from pygpukit._core import (
    all,
    any,
    argmax,
    argmin,
    cumsum,
    max,
    mean,
    min,
    prod,
    softmax,
    std,
    sum,
    sum_axis,
    var,
)

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "cumsum",
    "max",
    "mean",
    "min",
    "prod",
    "softmax",
    "std",
    "sum",
    "sum_axis",
    "var",
]
