"""Statistics, sorting, searching and sets against array-api-strict: dtypes, shapes of any rank, every keyword."""

from __future__ import annotations

import numpy as np
import pytest
from standard_values import (
    ALL,
    COMPLEX,
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    NUMERIC,
    REAL,
    SHAPES,
    SIGNED,
    UNSIGNED,
    Differences,
    draw,
)  # fmt: skip

import pygpukit as gp

STATISTICS = ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "count_nonzero"]
SETS = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


def axes_of(rank):
    """Those of the rank, several at once, none, all. An axis of a 0-d array is an error that the oracle has not."""
    single = list(range(-rank, rank))
    return [None, *single, *([(0, 1), (0, -1), tuple(range(-rank, 0))] if rank > 1 else [])]


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics(device, rng, name):
    # Sums of complex numbers that are nearly 0 have their own order.
    d = Differences(scale=4096, signed_zeros=False, accept=lambda got, expected, x: np.isnan(got) & (x.size == 0))
    for dtype in ALL:
        for shape in SHAPES:
            x = draw(rng, dtype, shape)
            for axis in axes_of(len(shape)):
                for keepdims in (False, True):
                    call = lambda m, x, a=axis, k=keepdims: getattr(m, name)(x, axis=a, keepdims=k)  # noqa: E731
                    d.check(f"{dtype}{shape} axis={axis} keepdims={keepdims}", call, x)
    d.finish(at_least=50)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_dtypes_of_sums(device, rng, name):
    d = Differences(scale=4096, signed_zeros=False)
    for dtype in ALL:
        x = draw(rng, dtype, (7,))
        if dtype not in COMPLEX:
            x = np.abs(x) if dtype != "bool" else x
        for wanted in NUMERIC:
            if dtype in COMPLEX and wanted not in COMPLEX:
                continue  # a cast that loses a part raises
            if dtype in FLOATS and wanted in INTEGERS:
                continue  # what a float beyond the integers becomes is left open
            call = lambda m, x, w=wanted: getattr(m, name)(x, dtype=getattr(m, w))  # noqa: E731
            d.check(f"{dtype} as {wanted}", call, x)
    d.finish(at_least=40)


@pytest.mark.parametrize("name", ["std", "var"])
def test_correction(device, rng, name):
    d = Differences(scale=4096)
    for dtype in FLOATS:
        for shape in ((5,), (3, 4), (1,)):
            for correction in (0, 1, 1.0, 0.5, 2):
                call = lambda m, x, c=correction: getattr(m, name)(x, correction=c)  # noqa: E731
                d.check(f"{dtype}{shape} correction={correction}", call, draw(rng, dtype, shape))
    d.finish(at_least=20)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_sums(device, rng, name):
    d = Differences(scale=4096, signed_zeros=False)
    for dtype in NUMERIC:
        for shape in SHAPES[1:]:
            rank = len(shape)
            for axis in range(-rank, rank):
                for initial in (False, True):
                    call = lambda m, x, a=axis, i=initial: getattr(m, name)(x, axis=a, include_initial=i)  # noqa: E731
                    d.check(f"{dtype}{shape} axis={axis} initial={initial}", call, draw(rng, dtype, shape))
            if rank == 1:
                d.check(f"{dtype}{shape}", lambda m, x: getattr(m, name)(x), draw(rng, dtype, shape))
    d.finish(at_least=100)


def test_diff(device, rng):
    d = Differences(signed_zeros=False)
    for dtype in NUMERIC:
        for shape in SHAPES[1:]:
            x = draw(rng, dtype, shape)
            for axis in range(-len(shape), len(shape)):
                for n in (1, 2, 7):
                    d.check(f"{dtype}{shape} n={n}", lambda m, x, a=axis, k=n: m.diff(x, axis=a, n=k), x)
                more = list(shape)
                more[axis] = 2
                y = draw(rng, dtype, tuple(more))
                d.check(f"{dtype}{shape} around", lambda m, x, y, a=axis: m.diff(x, axis=a, prepend=y, append=y), x, y)
    d.finish(at_least=100)


@pytest.mark.parametrize("name", STATISTICS)
def test_nan_and_infinity_come_through(device, name):
    d = Differences(signed_zeros=False)
    for values in ([NAN, 1.0, 2.0], [INF, 1.0, 2.0], [INF, -INF, 0.0], [-0.0, 0.0, NAN], [1.0, NAN, INF]):
        if name in ("std", "var") and INF in values and NAN not in values:
            continue  # the standard says nothing of them
        for dtype in FLOATS:
            d.check(f"{dtype} {values}", lambda m, x: getattr(m, name)(x), np.array(values, dtype))
    d.finish()


@pytest.mark.parametrize("name, expected", [("sum", 0), ("prod", 1), ("mean", NAN), ("std", NAN), ("var", NAN)])
def test_statistics_of_nothing(device, name, expected):
    got = getattr(gp, name)(gp.zeros((0,)))
    assert got.shape == ()
    np.testing.assert_array_equal(got.item(), expected)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(device, rng, name):
    d = Differences()
    for dtype in REAL:
        for shape in SHAPES:
            for axis in [None, *range(-len(shape), len(shape))]:
                for keepdims in (False, True):
                    call = lambda m, x, a=axis, k=keepdims: getattr(m, name)(x, axis=a, keepdims=k)  # noqa: E731
                    d.check(f"{dtype}{shape} axis={axis} keepdims={keepdims}", call, draw(rng, dtype, shape))
    d.check("NaN", lambda m, x: getattr(m, name)(x), np.array([1.0, NAN, 5.0, NAN]))
    d.finish(at_least=100)


def test_sort_and_argsort(device, rng):
    d = Differences()
    for dtype in REAL:
        for shape in SHAPES[1:]:
            x = draw(rng, dtype, shape)
            for axis in range(-len(shape), len(shape)):
                for down in (False, True):
                    d.check(f"{dtype}{shape}", lambda m, x, a=axis, b=down: m.sort(x, axis=a, descending=b), x)
                    d.check(f"{dtype}{shape}", lambda m, x, a=axis, b=down: m.argsort(x, axis=a, descending=b), x)
                    call = lambda m, x, a=axis, b=down: m.sort(x, axis=a, descending=b, stable=False)  # noqa: E731
                    d.check(f"{dtype}{shape} not stable", call, x)
    d.finish(at_least=300)


def test_searchsorted(device, rng):
    d = Differences()
    for dtype in REAL:
        x = np.sort(draw(rng, dtype, (9,)))
        order = rng.permutation(9)
        for shape in ((), (5,), (0,), (2, 3)):
            for side in ("left", "right"):
                v = draw(rng, dtype, shape)
                d.check(f"{dtype} {side}", lambda m, x, v, s=side: m.searchsorted(x, v, side=s), x, v)
                d.check(
                    f"{dtype} {side} sorter",
                    lambda m, x, v, i, s=side: m.searchsorted(x, v, side=s, sorter=i),
                    x[order], v, np.argsort(order),
                )  # fmt: skip
    d.finish(at_least=100)


def test_nonzero_and_where(device, rng):
    d = Differences()
    for dtype in ALL:
        for shape in SHAPES:
            x = draw(rng, dtype, shape)
            if shape:
                d.check(f"nonzero {dtype}{shape}", lambda m, x: m.nonzero(x), x)
            for other in ALL:
                condition, y = draw(rng, "bool", shape), draw(rng, other, shape)
                d.check(f"where {dtype} {other}", lambda m, c, x, y: m.where(c, x, y), condition, x, y)
        d.check(f"where {dtype} spread", lambda m, c, x, y: m.where(c, x, y), draw(rng, "bool", (3, 1)),
                draw(rng, dtype, (4,)), draw(rng, dtype, ()))  # fmt: skip
    d.finish(at_least=200)


@pytest.mark.parametrize("name", SETS)
def test_sets(device, rng, name):
    d = Differences()
    for dtype in ALL:
        for shape in SHAPES:
            d.check(f"{dtype}{shape}", lambda m, x: getattr(m, name)(x), draw(rng, dtype, shape))
    for values in ([NAN, 1, NAN, 0.0, -0.0, 2, NAN, INF, -INF], [[NAN, 1], [1, NAN]], [0.0, -0.0]):
        for dtype in FLOATS:
            d.check(f"{dtype} {values}", lambda m, x: getattr(m, name)(x), np.array(values, dtype))
    d.finish(at_least=80)


def test_fields_of_sets(device):
    x = gp.asarray([1, 2, 1])
    assert gp.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert gp.unique_counts(x)._fields == ("values", "counts")
    assert gp.unique_inverse(x)._fields == ("values", "inverse_indices")


def test_narrow_integers_sum_in_the_default_integer(device):
    for dtype in SIGNED:
        assert gp.sum(gp.ones(3, dtype=dtype)).dtype == gp.int64
    for dtype in UNSIGNED:
        assert gp.sum(gp.ones(3, dtype=dtype)).dtype == gp.uint64
