"""Families of transforms and factors: FFT, systems of equations."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.benchmark.sweep.family import Case, Draw, Family, Input

__all__ = ["TRANSFORM_FAMILIES"]


def _rfft(d: Draw) -> Case:
    rows, width = d.matrix(1 << 22, widest=1 << 16)
    return Case((Input((rows, width), "float32", d.layout("dense", "dense", "shifted")),))


def _spd(d: Draw) -> Input:
    size, batch = (d.size(2, 512), d.size(1, 64)) if d.large else (d.size(2, 24), d.size(1, 4))
    return Input((batch, size, size), "float32", kind="spd")


def _solve(d: Draw) -> Case:
    matrix = _spd(d)
    return Case((matrix, Input((*matrix.shape[:2], d.size(1, 64) if d.large else 3))))


def _complex(xs: Any) -> Any:
    return np.fft.rfft(xs[0], axis=-1)


TRANSFORM_FAMILIES = [
    Family(
        "rfft",
        _rfft,
        lambda xs, out: gp.fft.rfft(xs[0], out=out),
        lambda torch, ts: torch.fft.rfft(ts[0]),
        _complex,
        rows=((0,), 0),
    ),
    Family(
        "cholesky",
        lambda d: Case((_spd(d),)),
        lambda xs, out: gp.linalg.cholesky(xs[0], out=out),
        lambda torch, ts: torch.linalg.cholesky_ex(ts[0]).L,
        lambda xs: np.linalg.cholesky(xs[0]),
        bound=5.0,
    ),
    Family(
        "solve",
        _solve,
        lambda xs, out: gp.linalg.solve(*xs, out=out),
        lambda torch, ts: torch.linalg.solve_ex(*ts).result,
        lambda xs: np.linalg.solve(*xs),
        bound=20.0,
    ),
]
