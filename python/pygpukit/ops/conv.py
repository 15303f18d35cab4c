"""Convolution."""

from __future__ import annotations

from pygpukit._core import (
    conv1d,
    conv2d,
    conv_transpose1d,
    explain_conv1d,
    explain_conv2d,
    explain_conv_transpose1d,
    lay_out_conv_weight,
)

__all__ = [
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "explain_conv1d",
    "explain_conv2d",
    "explain_conv_transpose1d",
    "lay_out_conv_weight",
]
