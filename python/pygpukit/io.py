"""Files: SafeTensors and NumPy's .npy and .npz, read strictly and written."""

from __future__ import annotations

from pygpukit._core._io import (
    SafeTensorsFile,
    ShardedSafeTensorsFile,
    TensorInfo,
    find_model,
    load_safetensors,
    save_safetensors,
)
from pygpukit._core._npy import NpzFile, load, save, savez, savez_compressed

__all__ = [
    "NpzFile",
    "SafeTensorsFile",
    "ShardedSafeTensorsFile",
    "TensorInfo",
    "find_model",
    "load",
    "load_safetensors",
    "save",
    "save_safetensors",
    "savez",
    "savez_compressed",
]
