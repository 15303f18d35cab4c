"""convolve and correlate against NumPy: modes, lengths on both sides of the choice of method, dtypes, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pygpukit as gp

LENGTHS = [
    (1, 1),
    (5, 1),
    (1, 5),
    (7, 3),
    (3, 7),
    (6, 4),
    (4, 6),
    (33, 32),
    (300, 64),
    (300, 65),
    (65, 1025),
    (500, 400),
]


def make(rng, n, dtype):
    if dtype.startswith(("int", "uint")):
        return rng.integers(0, 9, n).astype(dtype)
    values = rng.normal(size=n)
    return (values + 1j * rng.normal(size=n) if dtype.startswith("complex") else values).astype(dtype)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int32", "uint8", "int64"])
def test_matches_numpy(device, rng, name, dtype):
    for (n, m), mode in itertools.product(LENGTHS, ("full", "same", "valid")):
        a, v = make(rng, n, dtype), make(rng, m, dtype)
        got = getattr(gp, name)(gp.asarray(a), gp.asarray(v), mode)
        expected = getattr(np, name)(a, v, mode)
        assert got.dtype.name == dtype and got.shape == expected.shape, (n, m, mode)
        if dtype.startswith(("int", "uint")):
            np.testing.assert_array_equal(got.to_numpy(), expected)
            continue
        wide = np.complex128 if dtype.startswith("complex") else np.float64
        exact = getattr(np, name)(a.astype(wide), v.astype(wide), mode)
        bound = 60 * np.finfo(dtype).eps * np.linalg.norm(a) * np.linalg.norm(v)
        assert np.abs(got.to_numpy() - exact).max() <= bound, (n, m, mode)


def test_defaults_and_promotion(device):
    a, v = gp.asarray([1, 2, 3]), gp.asarray([0.0, 1.0, 0.5])
    assert gp.convolve(a, v).tolist() == [0, 1, 2.5, 4, 1.5] and gp.convolve(a, v).dtype == gp.float32
    assert gp.correlate(a, v).tolist() == [3.5]
    views = gp.asarray(np.arange(10.0))
    assert gp.convolve(views[::2], views[3:0:-1]).tolist() == np.convolve(np.arange(0, 10.0, 2), [3, 2, 1]).tolist()


def test_refusals(device):
    x = gp.ones(3)
    with pytest.raises(ValueError, match="convolve: v must be 1-D with at least one element"):
        gp.convolve(x, gp.ones((2, 2)))
    with pytest.raises(ValueError, match="correlate: a must be 1-D with at least one element"):
        gp.correlate(gp.ones(0), x)
    with pytest.raises(ValueError, match="convolve: mode must be full, same or valid"):
        gp.convolve(x, x, "wrap")
