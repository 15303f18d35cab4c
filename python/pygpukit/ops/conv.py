"""Convolution."""

from __future__ import annotations

from pygpukit._core import conv1d, conv2d, conv_transpose1d

__all__ = ["conv1d", "conv2d", "conv_transpose1d"]
