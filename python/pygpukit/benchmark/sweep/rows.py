"""Families that reduce or scale rows: softmax, norms, sums, maxima, running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.benchmark.sweep.family import Case, Draw, Family, Input

__all__ = ["ROW_FAMILIES"]

Arrays = Sequence[Any]


def _one(d: Draw, **options: Any) -> Case:
    return Case((Input(d.matrix(), d.floats(), d.layout()),), options)


def _along(d: Draw) -> Case:
    return _one(d, axis=d.choose(0, 1))


def _norm(d: Draw, inputs: int) -> Case:
    shape, dtype = d.matrix(widest=1 << 16), d.floats()
    return Case((Input(shape, dtype, d.layout("dense", "dense", "shifted")), *[Input(shape[1:], dtype)] * inputs))


def _softmax(xs: Arrays) -> Any:
    shifted = np.exp(xs[0] - xs[0].max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _layernorm(xs: Arrays) -> Any:
    x, gamma, beta = xs
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def _rmsnorm(xs: Arrays) -> Any:
    return xs[0] / np.sqrt((xs[0] * xs[0]).mean(-1, keepdims=True) + 1e-5) * xs[1]


def _sum_error(got: Any, xs: Arrays, axis: int | None) -> float:
    """By the sum of sizes: what cancels has no digits to compare."""
    wanted, whole = np.sum(xs[0], axis=axis), np.sum(np.abs(xs[0]), axis=axis)
    return float(np.max(np.abs(got - wanted) / np.maximum(whole, 1e-30)))


def _cumsum_error(got: Any, xs: Arrays, axis: int) -> float:
    wanted, whole = np.cumsum(xs[0], axis=axis), np.cumsum(np.abs(xs[0]), axis=axis)
    return float(np.max(np.abs(got - wanted) / np.maximum(whole, 1e-30)))


ROW_FAMILIES = [
    Family(
        "softmax",
        _one,
        lambda xs, out: gp.softmax(xs[0], out=out),
        lambda torch, ts: torch.softmax(ts[0], -1),
        _softmax,
        rows=((0,), 0),
    ),
    Family(
        "layernorm",
        lambda d: _norm(d, 2),
        lambda xs, out: gp.layernorm(*xs, out=out),
        lambda torch, ts: torch.nn.functional.layer_norm(ts[0], ts[1].shape, ts[1], ts[2]),
        _layernorm,
        rows=((0, None, None), 0),
    ),
    Family(
        "rmsnorm",
        lambda d: _norm(d, 1),
        lambda xs, out: gp.rmsnorm(*xs, out=out),
        lambda torch, ts: torch.nn.functional.rms_norm(ts[0], ts[1].shape, ts[1], 1e-5),
        _rmsnorm,
        rows=((0, None), 0),
    ),
    Family(
        "sum_rows",
        lambda d: _one(d, axis=1),
        lambda xs, out, axis: gp.sum(xs[0], axis, out=out),
        lambda torch, ts, axis: torch.sum(ts[0], axis),
        lambda xs, axis: np.sum(xs[0], axis=axis),
        rows=((0,), 0),
        check=_sum_error,
    ),
    Family(
        "sum_columns",
        lambda d: _one(d, axis=0),
        lambda xs, out, axis: gp.sum(xs[0], axis, out=out),
        lambda torch, ts, axis: torch.sum(ts[0], axis),
        lambda xs, axis: np.sum(xs[0], axis=axis),
        rows=((1,), 0),
        check=_sum_error,
    ),
    Family(
        "sum_all",
        lambda d: _one(d, axis=None),
        lambda xs, out, axis: gp.sum(xs[0], out=out),
        lambda torch, ts, axis: torch.sum(ts[0]),
        lambda xs, axis: np.sum(xs[0]),
        check=_sum_error,
    ),
    Family(
        "max_rows",
        _one,
        lambda xs, out: gp.max(xs[0], 1, out=out),
        lambda torch, ts: torch.amax(ts[0], 1),
        lambda xs: np.max(xs[0], axis=1),
        rows=((0,), 0),
    ),
    Family(
        "argmax_rows",
        _one,
        lambda xs, out: gp.argmax(xs[0], 1, out=out),
        lambda torch, ts: torch.argmax(ts[0], 1),
        lambda xs: np.argmax(xs[0], axis=1),
        rows=((0,), 0),
    ),
    Family(
        "cumsum",
        _along,
        lambda xs, out, axis: gp.cumsum(xs[0], axis, out=out),
        lambda torch, ts, axis: torch.cumsum(ts[0], axis),
        lambda xs, axis: np.cumsum(xs[0], axis=axis),
        check=_cumsum_error,
    ),
]
