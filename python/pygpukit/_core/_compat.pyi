"""Names of the 0.2 series; use them through pygpukit.compat."""

import pygpukit._core
import pygpukit.typing


def copy_device_to_device_offset(dst: pygpukit._core.GPUArray, dst_offset_bytes: int, src: pygpukit._core.GPUArray, src_offset_bytes: int, size_bytes: int) -> None:
    """Copies a range of bytes between two arrays."""

def cast_f32_to_bf16(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """float32 to bfloat16, to nearest even."""

def cast_f32_to_f16(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """float32 to float16, to nearest even."""

def cast_bf16_to_f32(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """bfloat16 to float32."""

def cast_f16_to_f32(src: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """float16 to float32."""

def add_inplace(a: pygpukit._core.GPUArray, b: pygpukit.typing.Operand) -> None:
    """a += b."""

def mul_inplace(a: pygpukit._core.GPUArray, b: pygpukit.typing.Operand) -> None:
    """a *= b."""

def concat_axis0(a: pygpukit._core.GPUArray, b: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
    """Two arrays of one dtype joined along the first axis."""

def repeat_interleave_axis1(input: pygpukit._core.GPUArray, repeats: int) -> pygpukit._core.GPUArray:
    """[d0, d1, d2] to [d0, d1 * repeats, d2], each slice repeated in a row."""

def transpose_3d_021(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    A copy with axes 0 and 1 exchanged: [d0, d1, d2] to [d1, d0, d2], despite the name.
    """

def transpose_3d_012(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    A copy with axes 1 and 2 exchanged: [d0, d1, d2] to [d0, d2, d1], despite the name.
    """

def transpose_4d_0213(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """A copy with axes 1 and 2 exchanged."""

def transpose_4d_0132(input: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """A copy with axes 2 and 3 exchanged."""

def reshape_copy(input: pygpukit._core.GPUArray, new_shape: pygpukit.typing.ShapeLike | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """A copy in new_shape, or in the shape of out."""
