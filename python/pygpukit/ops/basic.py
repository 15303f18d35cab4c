"""Every operation, flat."""

from __future__ import annotations

from pygpukit import ops as _ops
from pygpukit.ops import *  # noqa: F403
from pygpukit.ops.matmul import *  # noqa: F403
from pygpukit.ops.matmul import __all__ as _products

__all__ = sorted({*_ops.__all__, *_products})
