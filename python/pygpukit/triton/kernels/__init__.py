"""Kernels in Triton over the last axis, and attention. They take TritonArrays or GPUArrays and write ``out``.

Importing this module does not import Triton; the first call does.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from pygpukit._core import GPUArray
from pygpukit.errors import ArgumentError, DTypeError, ShapeError
from pygpukit.triton.array import TritonArray
from pygpukit.triton.backend import get_triton, launch

__all__ = ["attention", "layernorm", "rmsnorm", "rotary", "softmax"]

_FLOATS = ("float16", "bfloat16", "float32")
_LARGEST_BLOCK = 4096
# Said, because Triton's own choice changes with its versions.
_OPTIONS = {"enable_fp_fusion": True}

Arg = TritonArray | GPUArray


def _programs() -> Any:
    get_triton()
    return importlib.import_module("pygpukit.triton.kernels.programs")


def _array(op: str, name: str, value: Arg) -> GPUArray:
    array = value.array if isinstance(value, TritonArray) else value
    if not isinstance(array, GPUArray):
        raise TypeError(f"{op}: {name} must be a TritonArray or a GPUArray, got {type(value).__qualname__}")
    if array.dtype.name not in _FLOATS:
        raise DTypeError(f"{op}: {name} must be one of {', '.join(_FLOATS)}, got {array.dtype.name}")
    return array


def _contiguous(op: str, name: str, value: Arg) -> GPUArray:
    array = _array(op, name, value)
    if not array.is_contiguous():
        raise ArgumentError(f"{op}: {name} must be contiguous, got a strided view; pass x.contiguous()")
    return array


def _check_shape(op: str, name: str, array: GPUArray, wanted: tuple[int, ...]) -> None:
    if array.shape != wanted:
        raise ShapeError(f"{op}: {name} must have shape {list(wanted)}, got {list(array.shape)}")


def _rows(op: str, x: GPUArray, out: GPUArray) -> tuple[int, int]:
    """(rows, width)"""
    if x.ndim == 0:
        raise ShapeError(f"{op}: x must have at least 1 dimension, got 0")
    _check_shape(op, "out", out, x.shape)
    width = x.shape[-1]
    return (x.size // width if width else 0), width


def _block(width: int) -> tuple[int, int]:
    """(elements a step, warps)"""
    block = min(1 << max(width - 1, 0).bit_length(), _LARGEST_BLOCK)
    return block, min(max(block // 256, 1), 16)


def rmsnorm(x: Arg, weight: Arg, out: Arg, eps: float = 1e-6) -> None:
    """out = x / sqrt(mean(x * x) + eps) * weight"""
    source, target, factor = (
        _contiguous("rmsnorm", name, value) for name, value in (("x", x), ("out", out), ("weight", weight))
    )
    rows, width = _rows("rmsnorm", source, target)
    _check_shape("rmsnorm", "weight", factor, (width,))
    block, warps = _block(width)
    if rows:
        launch(_programs().rmsnorm_rows, (rows,), source, factor, target, width, eps, BLOCK=block, num_warps=warps,
               **_OPTIONS)  # fmt: skip


def layernorm(x: Arg, weight: Arg, out: Arg, bias: Arg | None = None, eps: float = 1e-5) -> None:
    """out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias"""
    source, target, factor = (
        _contiguous("layernorm", name, value) for name, value in (("x", x), ("out", out), ("weight", weight))
    )
    rows, width = _rows("layernorm", source, target)
    _check_shape("layernorm", "weight", factor, (width,))
    added = factor if bias is None else _contiguous("layernorm", "bias", bias)
    _check_shape("layernorm", "bias", added, (width,))
    block, warps = _block(width)
    if rows:
        launch(_programs().layernorm_rows, (rows,), source, factor, added, target, width, eps,
               HAS_BIAS=bias is not None, BLOCK=block, num_warps=warps, **_OPTIONS)  # fmt: skip


def softmax(x: Arg, out: Arg) -> None:
    """out = exp(x - max(x)) / sum(exp(x - max(x)))"""
    source, target = _contiguous("softmax", "x", x), _contiguous("softmax", "out", out)
    rows, width = _rows("softmax", source, target)
    block, warps = _block(width)
    if rows:
        launch(_programs().softmax_rows, (rows,), source, target, width, BLOCK=block, num_warps=warps, **_OPTIONS)


def rotary(x: Arg, cos: Arg, sin: Arg, out: Arg) -> None:
    """Rotates the halves of the last axis of x [..., length, heads, width], or [length, width].

    ``cos`` and ``sin`` are [length, width / 2], or [length, width] of which the first half is read, as the tables of
    ``rope_inplace`` are.
    """
    source, target, cosines, sines = (
        _contiguous("rotary", name, value) for name, value in (("x", x), ("out", out), ("cos", cos), ("sin", sin))
    )
    if source.ndim < 2 or source.shape[-1] % 2:
        raise ShapeError(f"rotary: x must be [..., length, heads, even width], got {list(source.shape)}")
    rows, width = _rows("rotary", source, target)
    length, heads = (source.shape[-3], source.shape[-2]) if source.ndim > 2 else (source.shape[0], 1)
    if cosines.ndim != 2 or cosines.shape[0] != length or cosines.shape[1] not in (width // 2, width):
        raise ShapeError(
            f"rotary: cos must have shape {[length, width // 2]} or {[length, width]}, got {list(cosines.shape)}"
        )
    _check_shape("rotary", "sin", sines, cosines.shape)
    half = width // 2
    block = 1 << max(half - 1, 0).bit_length()
    if rows:
        launch(_programs().rotary_rows, (rows,), source, cosines, sines, target, heads, length, half,
               cosines.shape[1], BLOCK=block, num_warps=1, **_OPTIONS)  # fmt: skip


def attention(q: Arg, k: Arg, v: Arg, out: Arg, scale: float | None = None, causal: bool = True) -> None:
    """out = softmax(q k^T * scale) v: q and out [heads, queries, width], k and v [kv heads, keys, width].

    Views are taken as long as the last axis is contiguous. ``scale`` is 1 / sqrt(width) by default. With ``causal`` the
    last query sees the last key, and each one before it one key less.
    """
    op = "attention"
    arrays = {name: _array(op, name, value) for name, value in (("q", q), ("k", k), ("v", v), ("out", out))}
    steps = {}
    for name, array in arrays.items():
        if array.ndim != 3:
            raise ShapeError(f"{op}: {name} must be [heads, length, width], got {list(array.shape)}")
        steps[name] = TritonArray(array).stride()
        if array.size and array.shape[2] > 1 and steps[name][2] != 1:
            raise ArgumentError(f"{op}: the last axis of {name} must be contiguous, got a stride of {steps[name][2]}")
    heads, queries, width = arrays["q"].shape
    kv_heads, keys, _ = arrays["k"].shape
    if kv_heads == 0 or heads % kv_heads:
        raise ShapeError(f"{op}: heads of q must be a multiple of those of k, got {heads} and {kv_heads}")
    if not 1 <= width <= 256:
        raise ShapeError(f"{op}: the last axis must be 1 to 256 wide, got {width}")
    if causal and queries > keys:
        raise ShapeError(f"{op}: causal attention needs as many keys as queries, got {keys} and {queries}")
    _check_shape(op, "k", arrays["k"], (kv_heads, keys, width))
    _check_shape(op, "v", arrays["v"], (kv_heads, keys, width))
    _check_shape(op, "out", arrays["out"], (heads, queries, width))
    for name in ("k", "v"):
        if arrays[name].dtype != arrays["q"].dtype:
            raise DTypeError(f"{op}: {name} must be {arrays['q'].dtype.name} as q, got {arrays[name].dtype.name}")
    exact = arrays["q"].dtype.name == "float32"
    rows = 16 if queries <= 16 else 32 if exact else 64
    offsets = [step for name in ("q", "k", "v", "out") for step in steps[name][:2]]
    if heads and queries:
        launch(_programs().attention_tiles, (-(-queries // rows), heads), *arrays.values(), *offsets, queries, keys,
               heads // kv_heads, 1 / math.sqrt(width) if scale is None else scale, CAUSAL=causal, WIDTH=width,
               WIDTH_BLOCK=max(1 << (width - 1).bit_length(), 16), ROWS=rows, KEYS=32, num_warps=4,
               num_stages=1 if exact else 2, **_OPTIONS)  # fmt: skip
