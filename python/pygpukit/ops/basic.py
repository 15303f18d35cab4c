"""Every operation, flat."""

from __future__ import annotations

from pygpukit import ops as _ops
from pygpukit.compat import products as _products
from pygpukit.compat.products import *  # noqa: F403
from pygpukit.ops import *  # noqa: F403

__all__ = sorted({*_ops.__all__, *_products.__all__})
