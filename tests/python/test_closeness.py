"""isclose, allclose, array_equal against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import ARITHMETIC, upload

import pygpukit as gp

INF, NAN = np.inf, np.nan
A = np.array([0.0, 1.0, 1.0, 1.0, INF, INF, -INF, NAN, NAN, 5.0])
B = np.array([1e-9, 1.0, 1.000001, 1.1, INF, -INF, 1.0, NAN, 0.0, INF])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("equal_nan", [False, True])
def test_isclose(dtype, equal_nan, device):
    a, b = A.astype(dtype), B.astype(dtype)
    for keywords in ({}, {"rtol": 0.2}, {"rtol": 0.0, "atol": 0.0}, {"atol": 2.0}):
        expected = np.isclose(a, b, equal_nan=equal_nan, **keywords)
        got = gp.isclose(upload(a, dtype), upload(b, dtype), equal_nan=equal_nan, **keywords)
        np.testing.assert_array_equal(got.to_numpy(), expected)
        assert gp.allclose(upload(a, dtype), upload(b, dtype), equal_nan=equal_nan, **keywords) == expected.all()
    np.testing.assert_array_equal(gp.isclose(upload(a, dtype), 1.0).to_numpy(), np.isclose(a, 1.0))
    assert gp.allclose(gp.ones((3, 1)), gp.ones(4)) is True


@pytest.mark.parametrize("dtype", [d for d in ARITHMETIC if d != "bool"])
def test_isclose_of_every_dtype(dtype, device):
    x = upload(np.arange(5), dtype)
    assert gp.allclose(x, x) and not gp.allclose(x, x + upload(np.ones(5), dtype))


def test_array_equal(device):
    x = gp.arange(6).reshape(2, 3)
    assert gp.array_equal(x, x.copy()) is True
    assert gp.array_equal(x, x.reshape(3, 2)) is False
    assert gp.array_equal(x, x + 1) is False
    assert gp.array_equal(gp.asarray([NAN]), gp.asarray([NAN])) is False
    assert gp.array_equal(gp.zeros(0), gp.zeros(0)) is True
