"""Inputs of the cases: random, in every format."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pygpukit as gp
from pygpukit.benchmark.timing import Call

__all__ = ["Pair", "Work", "float8_work", "float_work", "missing_operation", "normal", "weight_only_work"]

Pair = tuple[gp.GPUArray, gp.GPUArray]

_gp: Any = gp  # for operations that a build may not have


@dataclass(frozen=True)
class Work:
    """One copy of a product's inputs."""

    call: Call
    stored: tuple[gp.GPUArray, ...]  # what the call reads: a, b, then scales
    operands: Callable[[], Pair]  # a [M, K] and b [K, N] as the call sees them
    plain: Pair  # what a peer without this format multiplies


def normal(shape: tuple[int, ...], dtype: str, seed: int) -> gp.GPUArray:
    array: gp.GPUArray = gp.random.normal(shape, dtype=dtype, seed=seed)
    return array


def missing_operation() -> str | None:
    """Why quantised products cannot run; None when they can."""
    missing = [name for name in ("quantize", "dequantize", "scaled_matmul") if not hasattr(gp, name)]
    return f"not yet: this version has no {missing[0]}" if missing else None


def float_work(a: gp.GPUArray, b: gp.GPUArray, out: gp.GPUArray, stored: Pair, use_tf32: bool | None = None) -> Work:
    """a [M, K] @ b [K, N]; `stored` are the arrays themselves where an operand is a view."""
    return Work(functools.partial(gp.matmul, a, b, out=out, use_tf32=use_tf32), stored, lambda: (a, b), (a, b))


def float8_work(a: gp.GPUArray, b: gp.GPUArray, out: gp.GPUArray) -> Work:
    """a [M, K] and b [N, K] as float8_e4m3, with a scale for each row of both."""
    a_codes, a_scale = _gp.quantize(a, "fp8_e4m3")
    b_codes, b_scale = _gp.quantize(b, "fp8_e4m3")

    def operands() -> Pair:
        return _gp.dequantize(a_codes, a_scale), _gp.dequantize(b_codes, b_scale).T

    call = functools.partial(_gp.scaled_matmul, a_codes, b_codes, a_scale, b_scale, out=out)
    return Work(call, (a_codes, b_codes, a_scale, b_scale), operands, (a, b.T))


def weight_only_work(a: gp.GPUArray, b: gp.GPUArray, form: str, out: gp.GPUArray) -> Work:
    """a [M, K] as it is, b [N, K] quantised; nvfp4 with the scales of its blocks alone."""
    codes, scale = _gp.quantize(b, form, tensor_scale=False) if form == "nvfp4" else _gp.quantize(b, form)

    def operands() -> Pair:
        return a, _gp.dequantize(codes, scale).T

    call = functools.partial(_gp.scaled_matmul, a, codes, None, scale, out=out)
    return Work(call, (a, codes, scale), operands, (a, b.T))
