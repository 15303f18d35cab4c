"""Sorting, searching and sets of values."""

from __future__ import annotations

import numpy as np
from opcase import FLOATS, NUMBERS, OpCase, normal

REAL = ("bool", *NUMBERS)
REFUSED = ("complex64", "float8_e4m3", "int4")
SHAPES = ((0,), (1,), (31,), (1025,), (2049,), (9001,), (3, 33), (2, 5, 7), (0, 3))


def ties(rng, shape, dtype):
    """Few different values, NaN and both zeros among floats."""
    if dtype == "bool":
        return normal(rng, shape, dtype)
    if dtype not in FLOATS:
        return normal(rng, shape, dtype)
    values = np.round(normal(rng, shape, dtype))
    return np.where(rng.random(shape) < 0.1, rng.choice(np.array([np.nan, 0.0, -0.0, np.inf, -np.inf]), shape), values)


def argsort(x, axis=-1, descending=False):
    """Stable both ways; NaN is the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    if x.dtype.kind != "f":
        return np.argsort(~x, axis=axis, kind="stable")
    return np.lexsort((np.where(np.isnan(x), 0, -x), ~np.isnan(x)), axis=axis)


def ordered(x, axis=-1, descending=False):
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


def index(dtype):
    return "int64"


def both(**more):
    return [
        OpCase("sort", ordered, REAL, make=ties, elementwise=False, shapes=SHAPES, rejects=REFUSED, **more),
        OpCase(
            "argsort",
            argsort,
            REAL,
            make=ties,
            elementwise=False,
            shapes=SHAPES,
            rejects=REFUSED,
            result_dtype=index,
            **more,
        ),
    ]


CASES = [*both(), *both(kwargs={"axis": 0, "descending": True})]

DEDICATED = {
    "topk": "test_sort.py::test_topk",
    "searchsorted": "test_sort.py::test_searchsorted",
    "unique_all": "test_sort.py::test_unique",
    "unique_counts": "test_sort.py::test_unique",
    "unique_inverse": "test_sort.py::test_unique",
    "unique_values": "test_sort.py::test_unique",
    "unique": "test_sort.py::test_unique",
    "isin": "test_sort.py::test_isin",
}
