"""Every operation, flat."""

from __future__ import annotations

from pygpukit import ops as _ops
from pygpukit.ops import *  # noqa: F403

__all__ = list(_ops.__all__)
