"""Loops of the CPU backend in wide registers: edges of functions, exact quotients, ties, layouts, threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pygpukit as gp

INF, NAN = math.inf, math.nan


def on_cpu(array):
    return gp.from_numpy(np.ascontiguousarray(array), device="cpu")


def scalar(function, x):
    """What the C library gives; the limit where Python raises."""
    try:
        return function(x)
    except OverflowError:
        return -INF if x < 0 and function is math.sinh else INF
    except ValueError:
        poles = {(math.log, 0.0): -INF, (math.log2, 0.0): -INF, (math.log10, 0.0): -INF, (math.log1p, -1.0): -INF,
                 (math.atanh, 1.0): INF, (math.atanh, -1.0): -INF}  # fmt: skip
        return poles.get((function, x), NAN)


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.75, 2.0, -2.0, 1e-8, -1e-8, 1e-300, -1e-300, 5e-324, -5e-324, 2.5e-310, 20.0, -20.0,
         88.0, -88.0, 709.7, -708.0, 710.4, -745.1, 750.0, -750.0, 1e5, 1e9, -1e9, 1e10, 1e22, 1e300, 1.7e308, math.pi,
         math.pi / 2, 3 * math.pi / 4, 1.5707963267948966e6, math.sqrt(0.5), math.sqrt(2), INF, -INF, NAN]  # fmt: skip
FUNCTIONS = ["exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
             "tanh", "asinh", "acosh", "atanh"]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges_of_functions(name, dtype):
    with np.errstate(all="ignore"):
        x = np.array(EDGES, dtype)
        expected = np.array([scalar(getattr(math, name), float(v)) for v in x]).astype(dtype)
    got = getattr(gp, name)(on_cpu(x)).to_numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[np.isinf(expected)], expected[np.isinf(expected)])
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(expected[finite]))
    error = np.abs(got[finite].astype("f8") - expected[finite].astype("f8"))
    assert (error <= 4 * np.spacing(np.abs(expected[finite])).astype("f8")).all(), (x[finite], got[finite], expected[finite])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["pow", "atan2", "hypot"])
def test_edges_of_functions_of_two(name, dtype):
    function = {"pow": math.pow, "atan2": math.atan2, "hypot": math.hypot}[name]
    sides = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-30, 1e30, 200.0, -0.75, INF, -INF, NAN]
    x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(np.array(sides, dtype), np.array(sides, dtype)))

    def wanted(a, b):
        try:
            return function(float(a), float(b))
        except OverflowError:
            return -INF if a < 0 and b % 2 == 1 else INF
        except ValueError:
            if float(a) == 0:  # to a negative power
                return math.copysign(INF, a) if b % 2 == 1 else INF
            return NAN

    with np.errstate(all="ignore"):
        expected = np.array([wanted(a, b) for a, b in zip(x, y, strict=True)]).astype(dtype)
    got = getattr(gp, name)(on_cpu(x), on_cpu(y)).to_numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    keep = np.isfinite(expected)
    np.testing.assert_array_equal(got[~keep & ~np.isnan(expected)], expected[~keep & ~np.isnan(expected)])
    np.testing.assert_array_equal(np.signbit(got[keep]), np.signbit(expected[keep]))
    error = np.abs(got[keep].astype("f8") - expected[keep].astype("f8"))
    assert (error <= 4 * np.spacing(np.abs(expected[keep])).astype("f8")).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integer_quotients_are_exact(dtype):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(7)
    edges = [v for v in (info.min, info.min + 1, -2, -1, 0, 1, 2, 3, 7, info.max // 2, info.max - 1, info.max) if v >= info.min]
    near = [2**k + d for k in range(2, info.bits) for d in (-1, 0, 1) if 2**k + d <= info.max]
    pool = np.array(edges + near, dtype)
    drawn = rng.integers(info.min, info.max, 3000, dtype=dtype, endpoint=True) >> rng.integers(0, info.bits - 1, 3000).astype(dtype)
    a = np.concatenate([np.repeat(pool, pool.size), drawn])
    b = np.concatenate([np.tile(pool, pool.size), rng.permutation(drawn)])
    wrap = 1 << info.bits

    def wrapped(v):
        v %= wrap
        return v - wrap if info.min < 0 and v >= wrap // 2 else v

    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    quotients = np.array([wrapped(x // y) if y else 0 for x, y in pairs], dtype)
    rests = np.array([x % y if y else 0 for x, y in pairs], dtype)
    np.testing.assert_array_equal(gp.floor_divide(on_cpu(a), on_cpu(b)).to_numpy(), quotients)
    np.testing.assert_array_equal(gp.remainder(on_cpu(a), on_cpu(b)).to_numpy(), rests)
    seven = np.array([wrapped(x // 7) for x, _ in pairs], dtype)
    np.testing.assert_array_equal(gp.floor_divide(on_cpu(a), 7).to_numpy(), seven)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_quotients_are_exact(dtype):
    rng = np.random.default_rng(8)
    edges = np.array([0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 3.0, 7.0, 1e-30, 1e30, -1e30, 2.0**23, 2.0**24, 2.0**53, INF, -INF, NAN], dtype)
    drawn = (rng.uniform(-1, 1, 4000) * 10.0 ** rng.integers(-6, 12, 4000)).astype(dtype)
    whole = rng.integers(-40, 40, 4000).astype(dtype) * np.array(0.1, dtype)
    a = np.concatenate([np.repeat(edges, edges.size), drawn, whole])
    b = np.concatenate([np.tile(edges, edges.size), rng.permutation(drawn), np.full(4000, 0.1, dtype)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(gp.remainder(on_cpu(a), on_cpu(b)).to_numpy(), np.remainder(a, b))
        finite = np.isfinite(a) & np.isfinite(b)
        got, expected = gp.floor_divide(on_cpu(a), on_cpu(b)).to_numpy(), np.floor_divide(a, b)
    np.testing.assert_array_equal(got[finite], expected[finite])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint64"])
@pytest.mark.parametrize("n", [1, 31, 33, 4096, 4097, 40_001, 300_001])
def test_extremes_and_first_places(n, dtype):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 50, n).astype(dtype)  # many ties
    for values in (x, -x if np.dtype(dtype).kind == "f" else x):
        a = on_cpu(values)
        for name in ("max", "min", "argmax", "argmin"):
            assert getattr(gp, name)(a).to_numpy() == getattr(np, name)(values), name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_and_zeros_of_extremes(dtype):
    x = np.zeros(9001, dtype)
    x[::2] = -0.0
    for name in ("max", "min"):
        assert np.signbit(getattr(gp, name)(on_cpu(x)).to_numpy())  # the first of equals
        assert not np.signbit(getattr(gp, name)(on_cpu(x[1:])).to_numpy())
    x = np.linspace(-1, 1, 9001).astype(dtype)
    x[[4500, 7000]] = NAN
    for name in ("max", "min"):
        assert np.isnan(getattr(gp, name)(on_cpu(x)).to_numpy())
    assert gp.argmax(on_cpu(x)).to_numpy() == gp.argmin(on_cpu(x)).to_numpy() == 4500


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("m, k, n", [(1, 530, 77), (2, 17, 300), (3, 33, 129), (77, 530, 1), (40, 31, 3), (33, 200, 99), (5, 0, 4)])
def test_complex_products_of_every_layout(m, k, n, dtype):
    rng = np.random.default_rng(m * n + k)

    def draw(*shape):
        return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)

    a, b = draw(3, m, k), draw(3, k, n)
    tolerance = (1e-5 if dtype == "complex64" else 1e-13) * max(k, 1)
    expected = a.astype("c16") @ b.astype("c16")
    x, y = on_cpu(a), on_cpu(b)
    x_turned, y_turned = (on_cpu(v.transpose(0, 2, 1)).transpose(0, 2, 1) for v in (a, b))
    bits = gp.matmul(x, y).to_numpy()
    np.testing.assert_allclose(bits, expected, atol=tolerance)
    for left in (x, x_turned):
        for right in (y, y_turned):
            np.testing.assert_array_equal(gp.matmul(left, right).to_numpy(), bits)
    for i in range(3):
        np.testing.assert_array_equal(gp.matmul(x[i], y[i]).to_numpy(), bits[i])
    np.testing.assert_allclose(gp.matmul(x, y[1]).to_numpy(), a.astype("c16") @ b[1].astype("c16"), atol=tolerance)
    np.testing.assert_allclose(gp.matmul(x[2], y).to_numpy(), a[2].astype("c16") @ b.astype("c16"), atol=tolerance)
    sparse = gp.zeros((3, m, 2 * n), dtype=dtype, device="cpu")[:, :, ::2]
    np.testing.assert_array_equal(gp.matmul(x, y, out=sparse).to_numpy(), bits)


def test_short_last_axes():
    rng = np.random.default_rng(5)
    for shape in ((5000, 3), (2, 2049, 5), (70, 15), (3, 1, 2)):
        a, row, column = rng.normal(size=shape), rng.normal(size=shape[-1:]), rng.normal(size=(*shape[:-1], 1))
        for other in (row, column, a):
            np.testing.assert_array_equal(gp.add(on_cpu(a), on_cpu(other)).to_numpy(), a + other)
        turned = on_cpu(a).transpose(*range(len(shape) - 1, -1, -1))
        np.testing.assert_array_equal(gp.multiply(turned, 2.0).to_numpy(), a.transpose() * 2.0)
    for count in (1, 2, 3, 15, 17):
        x = rng.normal(size=(300, 7))
        np.testing.assert_array_equal(gp.repeat(on_cpu(x), count).to_numpy(), np.repeat(x, count))
        np.testing.assert_array_equal(gp.repeat(on_cpu(x), count, axis=0).to_numpy(), np.repeat(x, count, axis=0))


def test_clamp_and_where_of_every_stride():
    rng = np.random.default_rng(6)
    x, low, cond = rng.normal(size=(40, 70)), rng.normal(size=(40, 70)), rng.random((40, 70)) < 0.5
    for a in (x, x[:, ::2], x.T):
        for c in (cond, cond[:, ::2], cond.T):
            if a.shape != c.shape:
                continue
            for other in (a * 2, a[:1] * 2, 5.0):
                mine = other if isinstance(other, float) else on_cpu(other)
                np.testing.assert_array_equal(gp.where(on_cpu(c), on_cpu(a), mine).to_numpy(), np.where(c, a, other))
                np.testing.assert_array_equal(gp.where(on_cpu(c), mine, on_cpu(a)).to_numpy(), np.where(c, other, a))
    np.testing.assert_array_equal(gp.clip(on_cpu(x), -0.5, 0.5).to_numpy(), np.clip(x, -0.5, 0.5))
    np.testing.assert_array_equal(gp.subtract(1.5, on_cpu(low)).to_numpy(), 1.5 - low)
