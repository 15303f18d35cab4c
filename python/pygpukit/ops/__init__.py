"""Every operation on arrays. ``__all__`` is what the library binds, the names of 0.2 last: an op needs no entry here."""

from __future__ import annotations

from typing import TYPE_CHECKING

# The sub-modules first: afterwards the names mean the functions.
from pygpukit.ops import embedding as _embedding  # noqa: F401  # isort: skip
from pygpukit.ops import matmul as _matmul  # noqa: F401  # isort: skip
from pygpukit.ops import moe as _moe  # noqa: F401  # isort: skip
from pygpukit import _core, compat
from pygpukit._core import *  # noqa: F403
from pygpukit._startup import OLD_NAMES, old_names

if TYPE_CHECKING:
    from pygpukit.compat import *  # noqa: F403
    from pygpukit.ops import audio as audio
    from pygpukit.ops import basic as basic
    from pygpukit.ops import conv as conv
    from pygpukit.ops import elementwise as elementwise
    from pygpukit.ops import nn as nn
    from pygpukit.ops import reduction as reduction
    from pygpukit.ops import sampling as sampling
    from pygpukit.ops import tensor as tensor
    from pygpukit.ops import unary as unary

# Functions of the extension that are not operations on arrays.
_NOT_OPS = frozenset(
    {
        "array",
        "asarray",
        "broadcast_shapes",
        "can_cast",
        "check_driver_compatibility",
        "copy_device_to_device_async",
        "copy_to_device",
        "copy_to_device_async",
        "cuda_unavailable_reason",
        "current_stream",
        "default_device",
        "devices",
        "event_elapsed_ms",
        "event_elapsed_us",
        "from_dlpack",
        "from_numpy",
        "get_driver_version",
        "get_memory_info",
        "get_nvrtc_path",
        "get_nvrtc_version",
        "health",
        "is_cuda_available",
        "is_nvrtc_available",
        "isdtype",
        "jit_unavailable_reason",
        "num_threads",
        "result_type",
        "set_num_threads",
        "synchronize",
    }
)


def _is_op(name: str) -> bool:
    value = getattr(_core, name)
    return not name.startswith("_") and callable(value) and not isinstance(value, type) and name not in _NOT_OPS


__all__ = [name for name in dir(_core) if _is_op(name)]
__all__ += [name for name in OLD_NAMES if not name.startswith("copy_")]
_LAZY = ("audio", "basic", "conv", "elementwise", "nn", "reduction", "sampling", "tensor", "unary")
__getattr__ = old_names(__name__, compat.__all__, _LAZY)
