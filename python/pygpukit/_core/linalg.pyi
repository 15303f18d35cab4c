"""Linear algebra: the array API's linalg extension."""

from typing import Any, SupportsIndex

import pygpukit._core
import pygpukit.core.results
import pygpukit.typing


def cholesky(x: pygpukit._core.GPUArray, *, upper: bool = False, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    The triangle L of x = L L^H, or U of x = U^H U. NaN where x is not positive definite.
    """

def det(x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Determinants of square matrices."""

def slogdet(x: pygpukit._core.GPUArray) -> pygpukit.core.results.SlogdetResult:
    """(sign, logabsdet) of determinants; 0 and -inf of a singular matrix."""

def inv(x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Inverses of square matrices. NaN where a matrix is singular."""

def solve(x1: pygpukit._core.GPUArray, x2: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    y of x1 @ y = x2. x2 is a vector when it is 1-D, else matrices. NaN where x1 is singular.
    """

def qr(x: pygpukit._core.GPUArray, *, mode: str = 'reduced') -> pygpukit.core.results.QRResult:
    """
    (Q, R): x = Q R, Q with orthonormal columns and R an upper triangle; mode is reduced or complete.
    """

def eigh(x: pygpukit._core.GPUArray) -> pygpukit.core.results.EighResult:
    """
    (eigenvalues, eigenvectors) of symmetric or Hermitian matrices: values ascending, vectors in columns. The lower triangle is read.
    """

def eigvalsh(x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The eigenvalues of eigh."""

def svd(x: pygpukit._core.GPUArray, *, full_matrices: bool = True) -> pygpukit.core.results.SVDResult:
    """
    (U, S, Vh): x = U diag(S) Vh with S descending; U and Vh are square unless full_matrices is False.
    """

def svdvals(x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The singular values of svd."""

def matrix_rank(x: pygpukit._core.GPUArray, *, rtol: pygpukit.typing.Operand | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """How many singular values are above rtol times the largest, as int64."""

def pinv(x: pygpukit._core.GPUArray, *, rtol: pygpukit.typing.Operand | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Pseudo-inverses; singular values up to rtol times the largest are taken as 0.
    """

def matrix_power(x: pygpukit._core.GPUArray, n: SupportsIndex, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Square matrices multiplied n times; their inverses for a negative n."""

def matrix_norm(x: pygpukit._core.GPUArray, *, keepdims: bool = False, ord: Any = 'fro', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Norms of matrices: ord is fro, nuc, 1, -1, 2, -2, inf or -inf."""

def vector_norm(x: pygpukit._core.GPUArray, *, axis: pygpukit.typing.AxisLike | None = None, keepdims: bool = False, ord: float = 2.0, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Norms of vectors along axes, all when not given: ord is any number."""

def diagonal(x: pygpukit._core.GPUArray, *, offset: SupportsIndex = 0) -> pygpukit._core.GPUArray:
    """A view of the elements (i, i + offset) of matrices."""

def trace(x: pygpukit._core.GPUArray, *, offset: SupportsIndex = 0, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Sums of the diagonals of matrices; dtype as for sum."""
