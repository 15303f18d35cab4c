"""Triton kernels on arrays of ours: launched on the current stream, held in memory, captured in graphs; no PyTorch.

    from pygpukit import triton as gpt

    gpt.launch(add, (blocks,), x, y, out, n, BLOCK=1024)     # a @triton.jit function and GPUArrays

Needs Triton: ``pip install PyGPUkit[triton]``. Importing this module does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pygpukit.triton.array import TritonArray, from_gpuarray, from_numpy
from pygpukit.triton.backend import launch, launching, triton_available, triton_version, use_triton_backend

if TYPE_CHECKING:
    from pygpukit.triton import backend as backend
    from pygpukit.triton import kernels as kernels

__all__ = [
    "TritonArray",
    "backend",
    "from_gpuarray",
    "from_numpy",
    "kernels",
    "launch",
    "launching",
    "triton_available",
    "triton_version",
    "use_triton_backend",
]


def __getattr__(name: str) -> object:
    if name in ("backend", "kernels"):
        return importlib.import_module(f"pygpukit.triton.{name}")
    raise AttributeError(f"module 'pygpukit.triton' has no attribute {name!r}")
