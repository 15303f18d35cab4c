"""Whether a product is right: sampled rows and columns against float64 on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp

__all__ = ["sampled_error"]

_FEW, _MANY = 32, 512


def _spread(length: int, count: int, rng: np.random.Generator) -> Any:
    """`count` indices, one from each stretch of equal length; all of them where there are no more."""
    if length <= count:
        return np.arange(length)
    edges = np.linspace(0, length, count + 1).astype(np.int64)
    return rng.integers(edges[:-1], edges[1:])


def _rows(x: gp.GPUArray, indices: Any) -> gp.GPUArray:
    return gp.take(x, gp.from_numpy(indices.astype(np.int64)), axis=0)


def _worst_row(a: gp.GPUArray, b_rows: gp.GPUArray, out: gp.GPUArray, rows: Any, columns: Any) -> float:
    """Largest error of a row of out[rows, columns], by the norms of the row's error and of the row. `b_rows` is b.T."""
    exact = _rows(a, rows).to_numpy(dtype="float64") @ _rows(b_rows, columns).to_numpy(dtype="float64").T
    given = _rows(_rows(out, rows).T, columns).T.to_numpy(dtype="float64")
    size = np.linalg.norm(exact, axis=1)
    return float(np.max(np.linalg.norm(given - exact, axis=1) / np.where(size > 0, size, 1.0)))


def sampled_error(a: gp.GPUArray, b: gp.GPUArray, out: gp.GPUArray, seed: int = 0) -> float:
    """How far `out` is from a @ b: the error of its worst sampled row or column, infinite where an element is no number.

    32 rows at 512 columns and 512 rows at 32 columns, drawn from stretches of equal length, so that a wrong row, column
    or tile shows; of a matrix with fewer rows, all of them.
    """
    if not bool(gp.all(gp.isfinite(out)).item()):
        return float("inf")
    rng = np.random.default_rng(seed)
    (m, _), n = a.shape, b.shape[1]
    error = _worst_row(a, b.T, out, _spread(m, _FEW, rng), _spread(n, _MANY, rng))
    if m > _FEW:
        error = max(error, _worst_row(b.T, a, out.T, _spread(n, _FEW, rng), _spread(m, _MANY, rng)))
    return error
