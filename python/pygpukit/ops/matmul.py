"""Matrix products."""

from __future__ import annotations

from pygpukit._core import (
    batched_matmul,
    explain_matmul,
    linear_bias_gelu,
    matmul,
    transpose,
)

__all__ = [
    "batched_matmul",
    "explain_matmul",
    "linear_bias_gelu",
    "matmul",
    "transpose",
]
