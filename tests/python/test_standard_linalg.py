"""The linalg and fft extensions against array-api-strict: stacks, empty matrices, every keyword."""

from __future__ import annotations

import numpy as np
import pytest
from standard_values import COMPLEX, FLOATS, INF, INTEGERS, Differences, draw

import pygpukit as gp

BATCHES = [(), (2,), (0,), (2, 3)]


def matrices(rng, dtype, batch, n):
    """A general matrix, one that is Hermitian with eigenvalues of 1 and more, and two columns."""
    a = draw(rng, dtype, (*batch, n, n))
    definite = a @ np.conj(np.swapaxes(a, -1, -2)) / 20 + np.eye(n)
    return a, definite.astype(dtype), draw(rng, dtype, (*batch, n, 2))


def within(limit):
    """Results of long sums: compared by the largest one of the result."""

    def accept(got, expected, *inputs):
        if not expected.size or got.dtype.kind not in "fc":
            return got == expected
        scale = max(1.0, np.abs(expected).max())
        return np.abs(got - expected) <= limit * np.finfo(got.dtype).eps * scale

    return accept


def linalg(name, **keywords):
    return lambda m, *arrays: getattr(m.linalg, name)(*arrays, **keywords)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_linalg(device, rng, dtype):
    d = Differences(accept=within(20000))
    for batch in BATCHES:
        for n in (1, 3):
            a, definite, columns = matrices(rng, dtype, batch, n)
            v, row = draw(rng, dtype, (*batch, n)), draw(rng, dtype, (n,))
            d.check("matmul", lambda m, x, y: x @ y, a, columns)
            d.check("matmul vector", lambda m, x, y: m.matmul(x, y), a, row)
            d.check("vector matmul", lambda m, x, y: m.matmul(y, x), a, row)
            d.check("vecdot", lambda m, x, y: m.vecdot(x, y), v, v)
            d.check("vecdot axis", lambda m, x, y: m.vecdot(x, y, axis=-2), a, columns[..., :1])
            d.check("matrix_transpose", lambda m, x: (m.matrix_transpose(x), x.mT), columns)
            for axes in (0, 1, ((0,), (0,)), ((-1,), (-1,))):
                d.check(f"tensordot {axes}", lambda m, x, y, k=axes: m.tensordot(x, y, axes=k), a, a)
            for name in ("det", "inv", "slogdet", "svdvals", "matrix_rank", "pinv", "eigvalsh", "trace", "diagonal"):
                d.check(name, linalg(name), definite)
            d.check("cholesky", linalg("cholesky"), definite)
            d.check("cholesky upper", linalg("cholesky", upper=True), definite)
            d.check("solve", linalg("solve"), definite, columns)
            d.check("solve vector", linalg("solve"), definite, row)
            for power in (-1, 0, 1, 2, 5):
                d.check(f"matrix_power {power}", linalg("matrix_power"), definite / 2, power)
            for offset in (-4, -1, 0, 1, 5):
                d.check("diagonal", linalg("diagonal", offset=offset), columns)
                d.check("trace", linalg("trace", offset=offset), columns)
            if 0 in batch:
                continue
            for keepdims in (False, True):
                for order in ("fro", "nuc", 1, 2, -1, -2, INF, -INF):
                    d.check(f"matrix_norm {order}", linalg("matrix_norm", ord=order, keepdims=keepdims), columns)
                for order in (0, 1, 2, 3, -1, INF, -INF, 0.5):
                    for axis in (None, 0, -1, (0, 1)):
                        call = linalg("vector_norm", ord=order, axis=axis, keepdims=keepdims)
                        d.check(f"vector_norm {order} {axis}", call, columns)
    d.finish(at_least=200)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_shapes_and_dtypes_of_factors(device, rng, dtype):
    d = Differences()
    describe = lambda results: [(r.shape, str(r.dtype).split(".")[-1]) for r in results]  # noqa: E731
    for batch in BATCHES:
        _, definite, columns = matrices(rng, dtype, batch, 3)
        for full in (True, False):
            d.check("svd", lambda m, x, f=full: describe(m.linalg.svd(x, full_matrices=f)), columns)
        for mode in ("reduced", "complete"):
            d.check("qr", lambda m, x, k=mode: describe(m.linalg.qr(x, mode=k)), columns)
        d.check("eigh", lambda m, x: describe(m.linalg.eigh(x)), definite)
        for name in ("svd", "slogdet", "eigh", "qr"):
            d.check(name, lambda m, x, n=name: list(getattr(m.linalg, n)(x)._fields), definite)
    d.finish(at_least=30)


def test_products_of_vectors(device, rng):
    d = Differences(accept=within(2000))
    for dtype in INTEGERS + FLOATS:
        u, v, a = draw(rng, dtype, (3,)), draw(rng, dtype, (3,)), draw(rng, dtype, (3, 3))
        d.check(f"outer {dtype}", linalg("outer"), u, v)
        d.check(f"cross {dtype}", linalg("cross"), u, v)
        d.check(f"cross axis {dtype}", linalg("cross", axis=-2), a, a + np.asarray(1, dtype))
        d.check(f"vecdot {dtype}", linalg("vecdot"), u, v)
        d.check(f"tensordot {dtype}", linalg("tensordot"), a, a)
        d.check(f"trace {dtype}", linalg("trace"), a)
    d.finish(at_least=40)


def test_products_of_shapes(device, rng):
    d = Differences(accept=within(2000))
    for first, second in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((4, 2, 3), (3, 2)), ((2, 1, 2, 3), (4, 3, 5)),
                          ((0, 3), (3, 0)), ((3, 0), (0, 2)), ((0,), (0,))):  # fmt: skip
        d.check(
            f"{first} {second}",
            lambda m, x, y: m.matmul(x, y),
            draw(rng, "float64", first),
            draw(rng, "float64", second),
        )
    d.finish(at_least=8)
    for first, second in (((2,), (3,)), ((), (3,)), ((2, 3), (2, 3))):
        with pytest.raises(ValueError, match="matmul"):
            gp.matmul(gp.ones(first), gp.ones(second))


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_transforms(device, rng, dtype):
    d = Differences(accept=within(200))
    for shape in ((1,), (4,), (5,), (3, 4), (2, 3, 4)):
        x = draw(rng, dtype, shape)
        for norm in ("backward", "ortho", "forward"):
            for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
                for n in (None, 1, 3, 8):
                    for axis in (-1, 0):
                        call = lambda m, x, k=name, a=axis, c=n, s=norm: getattr(m.fft, k)(x, n=c, axis=a, norm=s)  # noqa: E731
                        d.check(f"{name} {shape} {n} {axis} {norm}", call, x)
            for name in ("fftn", "ifftn", "rfftn", "irfftn"):
                d.check(f"{name} {shape}", lambda m, x, k=name, s=norm: getattr(m.fft, k)(x, norm=s), x)
                if len(shape) > 1:
                    call = lambda m, x, k=name: getattr(m.fft, k)(x, s=(3, 5), axes=(-2, -1))  # noqa: E731
                    d.check(f"{name} {shape} sizes", call, x)
        for name in ("fftshift", "ifftshift"):
            d.check(name, lambda m, x, k=name: (getattr(m.fft, k)(x), getattr(m.fft, k)(x, axes=0)), x)
    for n in (1, 2, 5, 8):
        for spacing in (1.0, 0.1, 2):
            if dtype in FLOATS:
                call = lambda m, c=n, s=spacing: m.fft.fftfreq(c, d=s, dtype=getattr(m, dtype))  # noqa: E731
                d.check("fftfreq", call)
    d.finish(at_least=60)
