"""Model files: SafeTensors, read strictly and written."""

from __future__ import annotations

from pygpukit._core._io import (
    SafeTensorsFile,
    ShardedSafeTensorsFile,
    TensorInfo,
    find_model,
    load_safetensors,
    save_safetensors,
)

__all__ = [
    "SafeTensorsFile",
    "ShardedSafeTensorsFile",
    "TensorInfo",
    "find_model",
    "load_safetensors",
    "save_safetensors",
]
