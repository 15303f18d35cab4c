"""Keywords, methods and functions that a user of NumPy writes, against NumPy."""

import numpy as np
import pytest

import pygpukit as gp


@pytest.fixture
def values(rng):
    x = rng.normal(size=(4, 7)).astype("float32")
    x[0, 3] = x[2, :3] = np.nan
    return x


def close(actual, wanted, rtol=1e-6):
    assert actual.shape == np.shape(wanted)
    np.testing.assert_allclose(actual.to_numpy(), wanted, rtol=rtol, atol=1e-6)


def test_products_of_numpys_arrays_are_refused_with_the_way_out(device):
    x = gp.ones((2, 3))
    for product in (lambda: x @ np.ones(3), lambda: np.ones((3, 2)) @ x, lambda: x.__imatmul__(np.ones((3, 3)))):
        with pytest.raises(TypeError, match=r"matmul: .*use gp.asarray"):
            product()


def test_keywords(device):
    host = np.arange(24, dtype="float32").reshape(2, 3, 4)
    x = gp.asarray(host)
    assert gp.transpose(x, (2, 0, 1)).shape == (4, 2, 3) and gp.transpose(x[0]).shape == (4, 3)
    assert gp.mean(x, dtype="float64").dtype == x.mean(0, dtype="f8").dtype == gp.float64
    close(gp.mean(gp.arange(5), dtype="float32"), 2.0)
    with pytest.raises(TypeError, match="mean: dtype must be a float or complex dtype, got int32"):
        gp.mean(x, dtype="int32")
    for found, wanted in zip(gp.where(x > 20), np.where(host > 20), strict=True):
        np.testing.assert_array_equal(found.to_numpy(), wanted)
    v = gp.asarray([1.0, 2.0, 2.0, 4.0])
    assert gp.searchsorted(v, 2).item() == 1 and gp.searchsorted(v, 2, side="right").item() == 3
    assert gp.searchsorted(gp.arange(4), 1.5).item() == 2
    found = gp.unique(v, return_index=True, return_inverse=True, return_counts=True)
    wanted = np.unique(v.to_numpy(), return_index=True, return_inverse=True, return_counts=True)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), theirs)
    assert gp.sort(x, None).shape == (24,) and gp.argsort(x, 0).shape == (2, 3, 4)
    close(gp.tensordot(x[0], x[1].T, 1), np.tensordot(host[0], host[1].T, 1))
    density, edges = gp.histogram(x, 5, density=True)
    close(density, np.histogram(host, 5, density=True)[0])
    close(gp.histogram(x, edges, density=True)[0], np.histogram(host, 5, density=True)[0])


def test_dtype_codes():
    for code in ("?", "b1", "i1", "<i2", "i4", "=i8", "u1", "|u1", "u2", "u4", "u8", "f2", "f4", "<f8", "c8", "c16"):
        assert gp.zeros(2, code, device="cpu").dtype == np.dtype(code), code
    for code in (">f4", "f", "f16", "", "<", "bf16"):
        with pytest.raises(gp.DTypeError, match="Unsupported dtype string"):
            gp.zeros(2, code, device="cpu")


@pytest.mark.parametrize("decimals", [-1, 0, 1, 3])
def test_round(device, decimals, rng):
    host = rng.normal(size=33) * 100
    close(gp.round(gp.asarray(host), decimals), np.round(host, decimals))
    close(gp.asarray(host).round(decimals), np.round(host, decimals))
    whole = gp.round(gp.asarray([-15, 5, 25, 117]), decimals)
    assert whole.dtype == gp.int64 and whole.tolist() == np.round([-15, 5, 25, 117], decimals).tolist()


def test_methods(device, rng):
    host = rng.normal(size=(3, 4))
    x = gp.asarray(host)
    close(x.take([2, 0], axis=1), host.take([2, 0], axis=1))
    close(x.repeat(2, axis=0), host.repeat(2, axis=0))
    close(x.dot(x.T), host.dot(host.T))
    close(x.swapaxes(0, 1), host.T)
    close(x.diagonal(1), host.diagonal(1))
    close(x.trace(), host.trace())
    assert [a.tolist() for a in (x > 0).nonzero()] == [a.tolist() for a in (host > 0).nonzero()]
    with pytest.raises(TypeError, match="take: got an unexpected keyword 'axes'"):
        x.take([0], axes=1)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_methods_of_quantiles(device, values, method, axis):
    x = gp.asarray(values)
    for q in (0, 0.1, 0.5, [0.25, 0.99, 1]):
        wanted = np.nanquantile(values, q, axis=axis, method=method, keepdims=True)
        close(gp.nanquantile(x, q, axis, keepdims=True, method=method), wanted)
        close(gp.nanpercentile(x, np.multiply(q, 100).tolist(), axis, keepdims=True, method=method), wanted)
        close(gp.quantile(x[1], q, method=method), np.quantile(values[1], q, method=method))
        close(gp.percentile(x, np.multiply(q, 100).tolist(), axis, method=method),
              np.quantile(values, q, axis=axis, method=method))  # fmt: skip
    with pytest.raises(ValueError, match="quantile: method must be linear, lower"):
        gp.quantile(x, 0.5, method="guess")


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_passing_over_nan(device, values, axis):
    x = gp.asarray(values)
    close(gp.nanmedian(x, axis), np.nanmedian(values, axis))
    close(gp.nancumsum(x, axis), np.nancumsum(values, axis), 1e-5)
    close(gp.nancumprod(x, axis), np.nancumprod(values, axis), 1e-5)
    for name in ("nanargmax", "nanargmin"):
        assert gp.array_equal(getattr(gp, name)(x, axis), gp.asarray(getattr(np, name)(values, axis)))
    low = gp.asarray([np.nan, -np.inf, -np.inf])
    assert gp.nanargmax(low).item() == 1
    with pytest.raises(ValueError, match="nanargmax: x must have a number in each slice"):
        gp.nanargmax(gp.asarray([[1.0, np.nan], [2.0, np.nan]]), 0)
    assert np.isnan(gp.nanmedian(gp.asarray([np.nan])).item())


def test_other_functions(device, rng):
    host = rng.normal(size=(3, 4))
    x, row = gp.asarray(host), gp.asarray(host[0])
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for a in (host, host[0], host[0, 0], host[None]):
            close(getattr(gp, name)(gp.asarray(a)), getattr(np, name)(a))
    close(gp.dstack([row, row]), np.dstack([host[0], host[0]]))
    close(gp.dstack([x, x]), np.dstack([host, host]))
    odd = np.array([np.nan, np.inf, -np.inf, 2.0], "float32")
    np.testing.assert_array_equal(gp.nan_to_num(gp.asarray(odd)).to_numpy(), np.nan_to_num(odd))
    filled = gp.nan_to_num(gp.asarray(odd), nan=1, posinf=3, neginf=-4)
    assert filled.tolist() == [1, 3, -4, 2]
    same = gp.copy(x)
    assert same is not x and gp.array_equal(same, x)
    close(gp.average(x), np.average(host))
    close(gp.average(x, 1, gp.asarray([1.0, 2, 3, 4])), np.average(host, 1, [1, 2, 3, 4]))
    close(gp.average(x, weights=x * x), np.average(host, weights=host * host))
    with pytest.raises(ValueError, match="average: weights"):
        gp.average(x, weights=row)
    with pytest.raises(gp.UnsupportedError, match="apply_along_axis: not offered, since it would call Python"):
        gp.apply_along_axis(sum, 0, x)
