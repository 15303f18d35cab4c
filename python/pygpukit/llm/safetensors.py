"""Checkpoints: SafeTensors files, and loaders that hold as much of them as a budget allows."""

from __future__ import annotations

from pygpukit._core._io import (
    Dtype,
    LazyModelLoader,
    PoolStats,
    SafeTensorsFile,
    ShardedSafeTensorsFile,
    TensorInfo,
    TensorState,
    load_safetensors,
)

__all__ = [
    "Dtype",
    "LazyModelLoader",
    "PoolStats",
    "SafeTensorsFile",
    "ShardedSafeTensorsFile",
    "TensorInfo",
    "TensorState",
    "load_safetensors",
]
