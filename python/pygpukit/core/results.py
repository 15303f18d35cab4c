"""Named tuples that functions with several results give."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pygpukit import GPUArray

__all__ = [
    "EighResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
]


class UniqueAll(NamedTuple):
    values: GPUArray
    indices: GPUArray
    inverse_indices: GPUArray
    counts: GPUArray


class UniqueCounts(NamedTuple):
    values: GPUArray
    counts: GPUArray


class UniqueInverse(NamedTuple):
    values: GPUArray
    inverse_indices: GPUArray


class EighResult(NamedTuple):
    eigenvalues: GPUArray
    eigenvectors: GPUArray


class QRResult(NamedTuple):
    Q: GPUArray
    R: GPUArray


class SlogdetResult(NamedTuple):
    sign: GPUArray
    logabsdet: GPUArray


class SVDResult(NamedTuple):
    U: GPUArray
    S: GPUArray
    Vh: GPUArray
