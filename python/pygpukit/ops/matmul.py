"""Matrix products. The names of 0.2 for quantised ones are in :mod:`pygpukit.compat` and answer here too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit._core import (
    Weight,
    batched_matmul,
    dequantize,
    explain_grouped_matmul,
    explain_matmul,
    explain_scaled_matmul,
    grouped_matmul,
    linear,
    linear_bias_gelu,
    linear_swiglu,
    matmul,
    pack,
    quantize,
    scaled_matmul,
    transpose,
)
from pygpukit._startup import old_names
from pygpukit.compat import products as _products

if TYPE_CHECKING:
    from pygpukit.compat.products import *  # noqa: F403

__all__ = [
    "Weight",
    "batched_matmul",
    "dequantize",
    "explain_grouped_matmul",
    "explain_matmul",
    "explain_scaled_matmul",
    "grouped_matmul",
    "linear",
    "linear_bias_gelu",
    "linear_swiglu",
    "matmul",
    "pack",
    "quantize",
    "scaled_matmul",
    "transpose",
]
__all__ += _products.__all__
__getattr__ = old_names(__name__, _products.__all__)
