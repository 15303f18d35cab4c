"""Custom CUDA kernels and fused functions: compiled at run time, launched with arrays and numbers."""

from __future__ import annotations

from pygpukit._core import ElementwiseKernel, ReductionKernel
from pygpukit.jit.compiler import (
    JITKernel,
    NvrtcError,
    NvrtcErrorCode,
    check_driver_compatibility,
    get_driver_requirements,
    get_nvrtc_path,
    get_nvrtc_version,
    get_warmup_error,
    is_nvrtc_available,
    is_warmup_done,
    jit,
    warmup,
)
from pygpukit.jit.fusion import fuse

__all__ = [
    "ElementwiseKernel",
    "JITKernel",
    "NvrtcError",
    "NvrtcErrorCode",
    "ReductionKernel",
    "check_driver_compatibility",
    "fuse",
    "get_driver_requirements",
    "get_nvrtc_path",
    "get_nvrtc_version",
    "get_warmup_error",
    "is_nvrtc_available",
    "is_warmup_done",
    "jit",
    "warmup",
]
