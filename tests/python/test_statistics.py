"""Operations of cases_statistics.py that do not fit its form."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import ARITHMETIC, FLOATS, INTEGERS, download, normal, upload

import pygpukit as gp


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_cumulative(dtype, device, rng):
    x = normal(rng, (4, 5), dtype)
    for name, first in (("cumulative_sum", 0), ("cumulative_prod", 1)):
        function = getattr(gp, name)
        plain = function(upload(x, dtype), axis=1)
        with_first = function(upload(x, dtype), axis=1, include_initial=True)
        assert with_first.shape == (4, 6) and with_first.dtype == plain.dtype
        np.testing.assert_array_equal(download(with_first)[:, 1:], download(plain))
        np.testing.assert_array_equal(download(with_first)[:, 0], first)
        numpy = np.cumsum if first == 0 else np.cumprod
        if dtype in INTEGERS or dtype == "bool":
            np.testing.assert_array_equal(download(plain), numpy(x, axis=1))
        assert function(upload(x, dtype)[0], dtype="complex128").dtype == gp.complex128
        with pytest.raises(ValueError, match="axis must be given"):
            function(upload(x, dtype))


@pytest.mark.parametrize("dtype", ARITHMETIC)
def test_diff(dtype, device, rng):
    x, more = normal(rng, (3, 6), dtype), normal(rng, (3, 2), dtype)
    g, extra = upload(x, dtype), upload(more, dtype)
    exact = dtype in ("float64", "complex128", "bool", *INTEGERS)
    for axis, n in [(-1, 1), (0, 1), (1, 2), (1, 0), (0, 3), (0, 4)]:
        got, expected = gp.diff(g, axis=axis, n=n), np.diff(x, axis=axis, n=n)
        assert got.shape == expected.shape and got.dtype == g.dtype
        if exact:
            np.testing.assert_array_equal(download(got), expected)
    got = gp.diff(g, prepend=extra, append=extra)
    if exact:
        np.testing.assert_array_equal(download(got), np.diff(x, prepend=more, append=more))
    with pytest.raises(ValueError, match="n must not be negative"):
        gp.diff(g, n=-1)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_quantile(dtype, device, rng):
    x = normal(rng, (7, 9), dtype)
    g = upload(x, dtype)
    for q in (0, 0.3, 0.5, 0.925, 1, [0.25, 0.5, 0.75], []):
        for axis, keepdims in [(None, False), (0, False), (1, True), (None, True)]:
            expected = np.quantile(x.astype("f8"), q, axis=axis, keepdims=keepdims)
            got = gp.quantile(g, q, axis, keepdims=keepdims) if q != [] else None
            if got is not None:
                assert got.shape == expected.shape
                np.testing.assert_allclose(got.to_numpy(), expected, rtol=1e-6, atol=1e-6)
                percent = np.multiply(q, 100).tolist()
                np.testing.assert_allclose(
                    gp.percentile(g, percent, axis, keepdims=keepdims).to_numpy(), expected, rtol=1e-5, atol=1e-5
                )
    spoilt = gp.asarray([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(gp.quantile(spoilt, 0.5, 1).to_numpy(), [np.nan, 2.0])
    with pytest.raises(ValueError, match="q must lie between 0 and 1"):
        gp.quantile(g, 1.5)
    with pytest.raises(ValueError, match="at least one element"):
        gp.quantile(g[:0], 0.5, 0)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bincount(dtype, device, rng):
    x = rng.integers(0, 50, 1000).astype(dtype)
    np.testing.assert_array_equal(gp.bincount(upload(x, dtype)).to_numpy(), np.bincount(x.astype("i8")))
    few = gp.bincount(upload(x[:3], dtype), minlength=70)
    np.testing.assert_array_equal(few.to_numpy(), np.bincount(x[:3].astype("i8"), minlength=70))
    assert gp.bincount(upload(x[:0], dtype)).shape == (0,)
    if dtype.startswith("int"):
        with pytest.raises(ValueError, match="negative"):
            gp.bincount(gp.asarray([1, -2], dtype=dtype))
    with pytest.raises(TypeError, match="float32"):
        gp.bincount(gp.ones(3))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_histogram(dtype, device, rng):
    x = normal(rng, (40, 50), dtype)
    for bins, span in [(10, None), (7, (-1.5, 2.5)), (1, None)]:
        counts, edges = gp.histogram(upload(x, dtype), bins, span)
        expected, at = np.histogram(x.astype("f8"), edges.to_numpy().astype("f8"))
        assert counts.dtype == gp.int64
        np.testing.assert_array_equal(counts.to_numpy(), expected)
        np.testing.assert_allclose(at, np.histogram_bin_edges(x.astype("f8"), bins, span), rtol=1e-6, atol=1e-6)
    given = gp.asarray([-2, 0, 1, 5], dtype=dtype)
    counts, edges = gp.histogram(upload(x, dtype), given)
    assert edges is given
    np.testing.assert_array_equal(counts.to_numpy(), np.histogram(x, [-2, 0, 1, 5])[0])
    with pytest.raises(ValueError, match="bins must be at least 1"):
        gp.histogram(given, 0)
    with pytest.raises(ValueError, match="finite and in order"):
        gp.histogram(given, 3, (2.0, 1.0))


def test_interp(device, rng):
    xp = np.array([-1.0, 0.0, 0.5, 3.0])
    fp = np.array([2.0, -1.0, 4.0, 0.0])
    x = np.concatenate([rng.uniform(-2, 4, 50), xp, [np.nan, np.inf, -np.inf]])
    points, values = gp.asarray(xp, dtype="float64"), gp.asarray(fp, dtype="float64")
    got = gp.interp(gp.asarray(x, dtype="float64"), points, values)
    np.testing.assert_allclose(got.to_numpy(), np.interp(x, xp, fp), rtol=1e-14, atol=1e-15)
    got = gp.interp(gp.asarray(x, dtype="float64"), points, values, left=-7.0, right=9.0)
    np.testing.assert_allclose(got.to_numpy(), np.interp(x, xp, fp, left=-7, right=9), rtol=1e-14, atol=1e-15)
    one = gp.interp(gp.asarray([0.0, 1.0, 2.0]), gp.asarray([1.0]), gp.asarray([5.0]))
    assert one.tolist() == [5.0, 5.0, 5.0]
    with pytest.raises(ValueError, match="fp must have shape"):
        gp.interp(points, points, values[:2])


def test_meshgrid(device):
    x, y, z = gp.arange(3), gp.arange(4), gp.arange(2)
    for indexing in ("xy", "ij"):
        for given in ([x], [x, y], [x, y, z]):
            expected = np.meshgrid(*[a.to_numpy() for a in given], indexing=indexing)
            got = gp.meshgrid(*given, indexing=indexing)
            assert isinstance(got, list)
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_array_equal(a.to_numpy(), b)
    assert gp.meshgrid() == []
    with pytest.raises(ValueError, match="indexing must be xy or ij"):
        gp.meshgrid(x, indexing="ab")


@pytest.mark.parametrize("dtype", FLOATS)
def test_stacks(dtype, device, rng):
    a, b = normal(rng, (3,), dtype), normal(rng, (3,), dtype)
    m, n = normal(rng, (2, 3), dtype), normal(rng, (2, 3), dtype)
    for name, numpy in (("hstack", np.hstack), ("vstack", np.vstack)):
        for parts in ([a, b], [m, n]):
            got = getattr(gp, name)([upload(p, dtype) for p in parts])
            np.testing.assert_array_equal(download(got), numpy(parts))
    np.testing.assert_array_equal(download(gp.vstack([upload(a, dtype), upload(m, dtype)])), np.vstack([a, m]))


def test_array_split(device):
    x = gp.arange(10)
    for sections in (1, 3, 4, 12, [2, 5]):
        for got, expected in zip(gp.array_split(x, sections), np.array_split(np.arange(10), sections), strict=True):
            np.testing.assert_array_equal(got.to_numpy(), expected)
    assert [p.shape for p in gp.array_split(gp.zeros((2, 5)), 2, axis=1)] == [(2, 3), (2, 2)]


def test_diag_makes_matrices(device):
    for k in (-2, 0, 1):
        np.testing.assert_array_equal(gp.diag(gp.arange(3), k).to_numpy(), np.diag(np.arange(3), k))
    assert gp.diag(gp.ones((2, 3)), 5).shape == (0,)
    with pytest.raises(ValueError, match="diag"):
        gp.diag(gp.ones((2, 2, 2)))
