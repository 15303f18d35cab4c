"""Families that touch each element once: arithmetic, casts, copies, gathers, orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.benchmark.sweep.family import Case, Draw, Family, Input

__all__ = ["MOVE_FAMILIES"]

Arrays = Sequence[Any]
_UNARY = ("exp", "tanh", "sqrt", "log", "sin", "abs")


def _mul_broadcast(d: Draw) -> Case:
    rows, width = d.matrix()
    dtype = d.floats()
    other = d.choose((width,), (rows, 1), (1, width))
    return Case((Input((rows, width), dtype), Input(other, dtype)))


def _mul_strided(d: Draw) -> Case:
    shape, dtype = d.matrix(), d.floats()
    return Case((Input(shape, dtype, d.layout()), Input(shape, dtype, d.layout("shifted", "gaps", "transposed"))))


def _copy_permuted(d: Draw) -> Case:
    rank = d.choose(2, 3, 4)
    axes = list(range(rank))
    while axes == sorted(axes):
        d.rng.shuffle(axes)
    return Case((Input(d.shape(rank), d.floats()),), {"axes": tuple(axes)})


def _take(d: Draw) -> Case:
    rows, width = d.matrix(widest=1 << 14)
    ids = d.elements() // width + 1
    return Case((Input((rows, width), d.floats()), Input((ids,), "int32", kind="index", limit=rows)))


def _where(d: Draw) -> Case:
    shape, dtype = d.matrix(), d.floats()
    return Case((Input(shape, "bool", kind="mask"), Input(shape, dtype, d.layout()), Input(shape, dtype)))


def _cast(d: Draw) -> Case:
    pairs = [("float32", "int32"), ("int32", "float32"), ("float32", "uint8")]
    if d.large:
        pairs += [("float32", "bfloat16"), ("bfloat16", "float32"), ("float16", "float32")]
    source, dtype = d.choose(*pairs)
    return Case((Input(d.matrix(), source, d.layout(), kind="positive"),), {"dtype": dtype})


def _cast_torch(torch: Any, ts: Arrays, dtype: str) -> Any:
    return ts[0].to(getattr(torch, dtype))


def _cast_numpy(xs: Arrays, dtype: str) -> Any:
    if dtype == "bfloat16":  # checked by the bound of its rounding
        return xs[0]
    wide = xs[0].dtype == np.float64 and dtype.startswith("float")
    return xs[0] if wide else xs[0].astype(dtype)


def _unary(d: Draw) -> Case:
    return Case((Input(d.matrix(), d.floats(), d.layout(), kind="positive"),), {"op": d.choose(*_UNARY)})


def _sort(d: Draw) -> Case:
    dtype = d.choose("float32", "int32", *(("bfloat16",) if d.large else ()))
    return Case((Input(d.matrix(1 << 22), dtype, d.layout("dense", "shifted")),))


def _ordered(got: Any, xs: Arrays) -> float:
    """Of argsort: the elements stand in order, equal ones as they were."""
    return 0.0 if np.array_equal(got, np.argsort(xs[0], axis=-1, kind="stable")) else float("inf")


def _topk(d: Draw) -> Case:
    rows, width = d.matrix(1 << 22)
    return Case((Input((rows, width), "float32"),), {"k": min(width, d.size(1, 64))})


def _permuted(xs: Arrays, out: Any, axes: tuple[int, ...]) -> Any:
    view = gp.permute(xs[0], axes)
    if out is None:
        return gp.copy(view)
    gp.copy_to(view, out)
    return out


def _take_numpy(xs: Arrays) -> Any:
    return np.take(xs[0], xs[1], axis=0)


MOVE_FAMILIES = [
    Family(
        "mul_broadcast",
        _mul_broadcast,
        lambda xs, out: gp.mul(*xs, out=out),
        lambda torch, ts: torch.mul(*ts),
        lambda xs: xs[0] * xs[1],
    ),
    Family(
        "mul_strided",
        _mul_strided,
        lambda xs, out: gp.mul(*xs, out=out),
        lambda torch, ts: torch.mul(*ts),
        lambda xs: xs[0] * xs[1],
        rows=((0, 0), 0),
    ),
    Family(
        "copy_permuted",
        _copy_permuted,
        _permuted,
        lambda torch, ts, axes: ts[0].permute(axes).contiguous(),
        lambda xs, axes: np.ascontiguousarray(xs[0].transpose(axes)),
    ),
    Family(
        "take",
        _take,
        lambda xs, out: gp.take(xs[0], xs[1], axis=0, out=out),
        lambda torch, ts: torch.index_select(ts[0], 0, ts[1]),
        _take_numpy,
        rows=((None, 0), 0),
    ),
    Family(
        "where",
        _where,
        lambda xs, out: gp.where(*xs, out=out),
        lambda torch, ts: torch.where(*ts),
        lambda xs: np.where(*xs),
        rows=((0, 0, 0), 0),
    ),
    Family(
        "cast",
        _cast,
        lambda xs, out, dtype: xs[0].astype(dtype),
        _cast_torch,
        _cast_numpy,
        rows=((0,), 0),
        in_graph=False,
    ),
    Family(
        "unary",
        _unary,
        lambda xs, out, op: getattr(gp, op)(xs[0], out=out),
        lambda torch, ts, op: getattr(torch, op)(ts[0]),
        lambda xs, op: getattr(np, op)(xs[0]),
        rows=((0,), 0),
    ),
    Family(
        "sort",
        _sort,
        lambda xs, out: gp.sort(xs[0], out=out),
        lambda torch, ts: torch.sort(ts[0], stable=True).values,
        lambda xs: np.sort(xs[0], axis=-1, kind="stable"),
        rows=((0,), 0),
    ),
    Family(
        "argsort",
        _sort,
        lambda xs, out: gp.argsort(xs[0], out=out),
        lambda torch, ts: torch.sort(ts[0], stable=True).indices,
        lambda xs: np.argsort(xs[0], axis=-1, kind="stable"),
        rows=((0,), 0),
        check=_ordered,
    ),
    Family(
        "topk",
        _topk,
        lambda xs, out, k: gp.topk(xs[0], k),
        lambda torch, ts, k: torch.topk(ts[0], k).values,
        lambda xs, k: -np.sort(-xs[0], axis=-1)[:, :k],
        rows=((0,), 0),
        pick=lambda found: found[0],
        in_graph=False,
    ),
]
