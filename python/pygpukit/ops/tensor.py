"""Shapes, joins and casts."""

from __future__ import annotations

from pygpukit._core import (
    cast_bf16_to_f32,
    cast_f16_to_f32,
    cast_f32_to_bf16,
    cast_f32_to_f16,
    concat_axis0,
    repeat_interleave_axis1,
    reshape_copy,
    transpose_3d_012,
    transpose_3d_021,
    transpose_4d_0132,
    transpose_4d_0213,
)

__all__ = [
    "cast_bf16_to_f32",
    "cast_f16_to_f32",
    "cast_f32_to_bf16",
    "cast_f32_to_f16",
    "concat_axis0",
    "repeat_interleave_axis1",
    "reshape_copy",
    "transpose_3d_012",
    "transpose_3d_021",
    "transpose_4d_0132",
    "transpose_4d_0213",
]
