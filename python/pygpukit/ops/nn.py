"""Activations and normalisations."""

from __future__ import annotations

from pygpukit._core import (
    bias_add_inplace,
    gelu,
    layernorm,
    relu2,
    rmsnorm,
    sigmoid,
    silu,
    tanh,
)

__all__ = [
    "bias_add_inplace",
    "gelu",
    "layernorm",
    "relu2",
    "rmsnorm",
    "sigmoid",
    "silu",
    "tanh",
]
