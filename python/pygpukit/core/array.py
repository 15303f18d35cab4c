"""GPUArray."""

from __future__ import annotations

from pygpukit import _core
from pygpukit._core import GPUArray

__all__ = ["GPUArray"]


def _from_bytes(data: bytes, dtype: str, shape: tuple[int, ...], device: str) -> GPUArray:
    """Unpickles an array: pickle wants a Python function."""
    return _core._array_from_bytes(data, dtype, shape, device)
