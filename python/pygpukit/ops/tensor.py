"""Shapes, joins and casts under the names of 0.2, which are those of :mod:`pygpukit.compat`."""

from __future__ import annotations

from pygpukit.compat import (
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
