"""Reductions and running sums."""

from __future__ import annotations

import warnings

import numpy as np
from opcase import ARITHMETIC, COMPLEX, FLOATS, INTEGERS, NUMBERS, UNSIGNED, OpCase, normal, round_to, uniform

REAL = ("bool", *NUMBERS)
STORED = ("float8_e4m3", "int4")
SHAPES = ((0,), (1,), (31,), (33,), (1025,), (70001,), (), (3, 33), (2, 5, 7), (1, 1), (0, 3), (130, 40))
FULL = ((1,), (31,), (33,), (1025,), (70001,), (), (3, 33), (2, 5, 7))
MATRICES = ((1, 1), (3, 33), (33, 3), (130, 1025), (1025, 24), (700, 8), (5, 0))
CUBES = ((1, 1, 1), (2, 5, 7), (3, 33, 16), (9, 2, 70), (16, 40, 3))
# A sum of n terms of one sign errs by log2(n) half ulps at most; 16-bit results add one rounding to a float32 sum.
SUM_ULPS = {"float16": 0.51, "bfloat16": 0.51, "float32": 12.0, "float64": 12.0, "complex64": 16.0, "complex128": 16.0}
SPREAD_ULPS = {
    **dict.fromkeys(("bool", *INTEGERS), 64.0),
    "float16": 1.0,
    "bfloat16": 1.0,
    "float32": 64.0,
    "float64": 64.0,
}


def wide(dtype):
    """What integers are added up in."""
    if dtype in UNSIGNED:
        return "uint64"
    return "int64" if dtype in INTEGERS or dtype == "bool" else dtype


def real_mean(dtype):
    return "float64" if dtype in INTEGERS or dtype == "bool" else dtype


def index(dtype):
    return "int64"


def as_bool(dtype):
    return "bool"


def positive(rng, shape, dtype):
    """Terms of one sign, so that a sum's relative error is that of its additions; 16-bit sums stay finite."""
    if dtype == "bool":
        return normal(rng, shape, dtype)
    top = 0.25 if dtype == "float16" else 4.0
    if dtype in COMPLEX:
        return round_to(rng.uniform(1, 4, shape) + 1j * rng.uniform(1, 4, shape), dtype)
    return uniform(0, 99)(rng, shape, dtype) if dtype in INTEGERS else uniform(top / 4, top)(rng, shape, dtype)


def near_one(rng, shape, dtype):
    """Factors whose product neither vanishes nor overflows."""
    if dtype in INTEGERS or dtype == "bool":
        return np.where(rng.random(shape) < 0.1, 3, 1).astype(dtype)
    values = 2.0 ** rng.integers(-1, 2, shape)
    return round_to(np.where(rng.random(shape) < 0.02, values, 1.0), dtype)


def ties(rng, shape, dtype):
    """Few different values; NaN among floats."""
    if dtype == "bool":
        return normal(rng, shape, dtype)
    values = rng.integers(0, 4, shape)
    if dtype in FLOATS:
        return np.where(rng.random(shape) < 0.02, np.nan, values.astype(np.float64))
    return values.astype(np.complex128 if dtype in COMPLEX else dtype)


def mostly_zero(rng, shape, dtype):
    values = np.where(rng.random(shape) < 0.05, 1, 0)
    return values.astype(np.complex128 if dtype in COMPLEX else np.float64 if dtype in FLOATS else dtype)


def mostly_one(rng, shape, dtype):
    return 1 - mostly_zero(rng, shape, dtype) if dtype != "bool" else ~mostly_zero(rng, shape, dtype)


def _accumulator(x):
    """NumPy adds float64 less exactly than we do in places: references of floats are extended."""
    return {"b": np.int64, "i": np.int64, "u": np.uint64, "f": np.longdouble, "c": np.clongdouble}[x.dtype.kind]


def _rounded(values):
    return np.asarray(values).astype(
        {"g": np.float64, "G": np.complex128}.get(np.asarray(values).dtype.char, np.asarray(values).dtype)
    )


def total(x, axis=None, keepdims=False):
    return _rounded(np.sum(x, axis=axis, keepdims=keepdims, dtype=_accumulator(x)))


def product(x, axis=None, keepdims=False):
    return _rounded(np.prod(x, axis=axis, keepdims=keepdims, dtype=_accumulator(x)))


def running(x, axis=None):
    return _rounded(np.cumsum(x, axis=axis, dtype=_accumulator(x)))


def mean(x, axis=None, keepdims=False):
    return _of_some(np.mean, x, axis, keepdims)


def var(x, axis=None, keepdims=False):
    return _of_some(np.var, x, axis, keepdims)


def std(x, axis=None, keepdims=False):
    return _of_some(np.std, x, axis, keepdims)


def _of_some(function, x, axis, keepdims):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of no elements: NaN is what is expected
        extended = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
        return _rounded(function(extended, axis=axis, keepdims=keepdims))


def every_axis(name, reference, dtypes, full=SHAPES, **more):
    """All axes, one from either end, several, with and without keepdims. The first of them carries the error cases."""
    make = {"elementwise": False, **more}
    inner = {k: v for k, v in make.items() if k != "rejects"}
    return [
        OpCase(name, reference, dtypes, shapes=full, **make),
        OpCase(
            name, reference, dtypes, shapes=MATRICES if full is SHAPES else MATRICES[:-1], kwargs={"axis": 0}, **inner
        ),
        OpCase(name, reference, dtypes, shapes=MATRICES[:-1], kwargs={"axis": -1, "keepdims": True}, **inner),
        OpCase(name, reference, dtypes, shapes=CUBES, layout_shape=(7, 9, 12), kwargs={"axis": 1}, **inner),
        OpCase(name, reference, dtypes, shapes=CUBES, layout_shape=(7, 9, 12), kwargs={"axis": (0, 2)}, **inner),
        OpCase(
            name,
            reference,
            dtypes,
            shapes=CUBES,
            layout_shape=(7, 9, 12),
            kwargs={"axis": (-1, 1), "keepdims": True},
            **inner,
        ),
        OpCase(name, reference, dtypes, shapes=CUBES[:2], layout_shape=(7, 9, 12), kwargs={"axis": ()}, **inner),
    ]


def one_axis(name, reference, dtypes, full, **more):
    make = {"elementwise": False, **more}
    inner = {k: v for k, v in make.items() if k != "rejects"}
    return [
        OpCase(name, reference, dtypes, shapes=full, **make),
        OpCase(name, reference, dtypes, shapes=MATRICES[:-1], kwargs={"axis": 0}, **inner),
        OpCase(name, reference, dtypes, shapes=MATRICES[:-1], kwargs={"axis": 1}, **inner),
        OpCase(name, reference, dtypes, shapes=CUBES, layout_shape=(7, 9, 12), kwargs={"axis": -2}, **inner),
    ]


CASES = [
    *every_axis("sum", total, ARITHMETIC, make=positive, result_dtype=wide, ulps=SUM_ULPS, rejects=STORED),
    *every_axis("prod", product, ARITHMETIC, make=near_one, result_dtype=wide, ulps=SUM_ULPS, rejects=STORED),
    *every_axis(
        "mean",
        mean,
        ARITHMETIC,
        make=positive,
        result_dtype=real_mean,
        ulps={**SUM_ULPS, "float64": 13.0},
        rejects=STORED,
    ),
    *every_axis("max", np.max, REAL, FULL, make=ties, rejects=("complex64", *STORED)),
    *every_axis("min", np.min, REAL, FULL, make=ties, rejects=("complex64", *STORED)),
    *every_axis("max", np.max, REAL, FULL, make=normal),
    *every_axis("any", np.any, ARITHMETIC, make=mostly_zero, result_dtype=as_bool, rejects=STORED),
    *every_axis("all", np.all, ARITHMETIC, make=mostly_one, result_dtype=as_bool, rejects=STORED),
    *every_axis(
        "var", var, REAL, make=normal, result_dtype=real_mean, ulps=SPREAD_ULPS, rejects=("complex64", *STORED)
    ),
    *every_axis(
        "std", std, REAL, make=normal, result_dtype=real_mean, ulps=SPREAD_ULPS, rejects=("complex64", *STORED)
    ),
    *one_axis("argmax", np.argmax, REAL, FULL, make=ties, result_dtype=index, rejects=("complex64", *STORED)),
    *one_axis("argmin", np.argmin, REAL, FULL, make=ties, result_dtype=index, rejects=("complex64", *STORED)),
    *one_axis("cumsum", running, ARITHMETIC, SHAPES, make=positive, result_dtype=wide, ulps=SUM_ULPS, rejects=STORED),
    OpCase(
        "sum_axis",
        lambda x, axis: total(x, axis),
        FLOATS,
        make=positive,
        shapes=MATRICES,
        kwargs={"axis": 0},
        ulps=SUM_ULPS,
        elementwise=False,
    ),
    OpCase(
        "sum_axis",
        lambda x, axis: total(x, axis),
        FLOATS,
        make=positive,
        shapes=MATRICES,
        kwargs={"axis": 1},
        ulps=SUM_ULPS,
        elementwise=False,
    ),
]
