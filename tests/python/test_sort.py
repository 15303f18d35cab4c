"""Sorting, searching and sets of values beyond the cases of cases_sort.py."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import NUMBERS, download, upload

import pygpukit as gp

DTYPES = ("bool", *NUMBERS)


def some(rng, shape, dtype):
    """Repeated values; NaN among floats."""
    values = rng.integers(0, 2 if dtype == "bool" else 40, shape)
    if dtype == "bool":
        return values.astype(bool)
    if "float" in dtype:
        return np.where(rng.random(shape) < 0.05, np.nan, values - 20.0)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype, largest, device, rng):
    x = some(rng, (3, 50), dtype)
    for axis, k in [(-1, 7), (0, 2), (1, 50), (0, 0)]:
        values, indices = gp.topk(upload(x, dtype), k, axis=axis, largest=largest)
        whole = gp.argsort(upload(x, dtype), axis=axis, descending=largest).to_numpy()
        first = np.take(whole, np.arange(k), axis)
        np.testing.assert_array_equal(indices.to_numpy(), first)
        np.testing.assert_array_equal(download(values), np.take_along_axis(x, first, axis))
    with pytest.raises(ValueError, match="topk: k must be between 0 and 50, got 51"):
        gp.topk(upload(x, dtype), 51)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(dtype, side, device, rng):
    x, values = some(rng, 300, dtype), some(rng, (7, 11), dtype)
    expected = np.searchsorted(np.sort(x), values, side=side)
    found = gp.searchsorted(gp.sort(upload(x, dtype)), upload(values, dtype), side=side)
    assert found.dtype == gp.int64
    np.testing.assert_array_equal(found.to_numpy(), expected)
    order = gp.argsort(upload(x, dtype))
    by_order = gp.searchsorted(upload(x, dtype), upload(values, dtype).T, side=side, sorter=order)
    np.testing.assert_array_equal(by_order.to_numpy(), expected.T)


def test_searchsorted_promotes_and_refuses(device):
    edges = gp.asarray([1, 3, 5], dtype="int32")
    assert gp.searchsorted(edges, gp.asarray([2.5, 5.5, -1.0])).tolist() == [1, 3, 0]
    assert gp.searchsorted(gp.zeros(0), gp.ones(2)).tolist() == [0, 0]
    with pytest.raises(ValueError, match="side must be left or right"):
        gp.searchsorted(edges, edges, side="middle")
    with pytest.raises(ValueError, match="x1"):
        gp.searchsorted(gp.ones((2, 2)), edges)
    with pytest.raises(TypeError, match="complex64"):
        gp.searchsorted(gp.ones(2, dtype="complex64"), gp.ones(2, dtype="complex64"))


@pytest.mark.parametrize("dtype", (*DTYPES, "complex64", "complex128"))
def test_unique(dtype, device, rng):
    for shape in [(0,), (1,), (400,), (6, 0), (9, 31), ()]:
        x = some(rng, shape, "float32" if "complex" in dtype else dtype)
        if "complex" in dtype:
            x = np.nan_to_num(x) + 1j * some(rng, shape, "int8")
        values, index, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
        )
        given = upload(x, dtype)
        found = gp.unique_all(given)
        assert found.values.dtype == given.dtype and found.indices.dtype == found.counts.dtype == gp.int64
        assert found.inverse_indices.shape == given.shape
        np.testing.assert_array_equal(download(found.values), values)
        np.testing.assert_array_equal(found.indices.to_numpy(), index)
        np.testing.assert_array_equal(found.inverse_indices.to_numpy(), inverse.reshape(shape))
        np.testing.assert_array_equal(found.counts.to_numpy(), counts)
        parts = {"unique_counts": ("values", "counts"), "unique_inverse": ("values", "inverse_indices")}
        for name, fields in parts.items():
            part = getattr(gp, name)(given)
            assert part._fields == fields
            for field in fields:
                np.testing.assert_array_equal(download(getattr(part, field)), download(getattr(found, field)))
        np.testing.assert_array_equal(download(gp.unique_values(given)), values)
        np.testing.assert_array_equal(download(gp.unique(given)), values)


@pytest.mark.parametrize("dtype", (*DTYPES, "complex64"))
def test_isin(dtype, device, rng):
    base = "int16" if "complex" in dtype else dtype
    x, values = some(rng, (9, 31), base), some(rng, (4, 3), base)
    for invert in (False, True):
        found = gp.isin(upload(x, dtype), upload(values, dtype), invert=invert)
        np.testing.assert_array_equal(found.to_numpy(), np.isin(x, values, invert=invert))
    assert not gp.isin(upload(x, dtype), upload(values[:0], dtype)).any()


def test_sorts_are_stable(device):
    zeros = gp.asarray([0.0, -0.0, 1.0, -0.0, 0.0])
    assert np.signbit(gp.sort(zeros).to_numpy()).tolist() == [False, True, True, False, False]
    assert gp.argsort(zeros, descending=True).tolist() == [2, 0, 1, 3, 4]
    assert gp.argsort(gp.asarray([np.nan, 2.0, np.nan, -np.inf])).tolist() == [3, 1, 0, 2]
    assert gp.argsort(gp.asarray([1.0, np.nan, 2.0, np.nan]), descending=True).tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("shape", [(5, 100), (3, 700), (40000,)])
def test_sort_gives_what_argsort_takes(dtype, descending, shape, device, rng):
    x = some(rng, shape, dtype)
    if "float" in dtype:
        x[rng.random(shape) < 0.2] = -0.0
    given = upload(x, dtype)
    order = gp.argsort(given, axis=-1, descending=descending).to_numpy()
    expected, found = np.take_along_axis(x, order, -1), download(gp.sort(given, axis=-1, descending=descending))
    np.testing.assert_array_equal(found, expected)
    if "float" in dtype:
        np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(expected)])


def test_sort_of_a_flattened_array(device, rng):
    x = rng.normal(size=(7, 9)).astype("float32")
    np.testing.assert_array_equal(gp.sort(gp.asarray(x), axis=None).to_numpy(), np.sort(x, axis=None))
    with pytest.raises(ValueError, match="sort: x must have at least one dimension"):
        gp.sort(gp.asarray(1.0))
