"""Reductions that pass over NaN, running products, counts, quantiles, grids and triangles."""

from __future__ import annotations

import warnings

import numpy as np
from cases_reduce import SUM_ULPS, near_one, wide
from opcase import ARITHMETIC, FLOATS, NUMBERS, OpCase, normal, round_to, uniform

REAL = ("bool", *NUMBERS)
STORED = ("float8_e4m3", "int4")
SHAPES = ((1,), (31,), (1025,), (3, 33), (2, 5, 7))
MATRICES = ((1, 1), (3, 33), (33, 3), (130, 25))
NAN_ULPS = {"float16": 1.0, "bfloat16": 1.0, "float32": 32.0, "float64": 32.0}


def with_nan(rng, shape, dtype):
    values = np.asarray(normal(rng, shape, dtype))
    if dtype not in FLOATS:
        return values
    values = round_to(np.abs(values) / 8 + 0.5, dtype)
    return np.where(rng.random(shape) < 0.2, np.nan, values)


def quiet(function):
    """NumPy warns where nothing is left; floats are added up in extended precision."""

    def reference(x, **keywords):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = function(x.astype(np.longdouble) if x.dtype.kind == "f" else x, **keywords)
        return np.asarray(result, dtype=np.float64 if np.asarray(result).dtype.kind == "f" else None)

    return reference


def running_product(x, axis=None):
    exact = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble) if x.dtype.kind in "fc" else x
    result = np.cumprod(
        exact, axis=axis, dtype=None if x.dtype.kind in "fc" else np.uint64 if x.dtype.kind == "u" else np.int64
    )
    return result.astype({"g": np.float64, "G": np.complex128}.get(result.dtype.char, result.dtype))


def float_of(dtype):
    return dtype if dtype in FLOATS else "float64"


def index(dtype):
    return "int64"


def logsumexp(x, axis=None, keepdims=False):
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis)


def log_softmax(x, axis=-1):
    return x - logsumexp(x, axis, keepdims=True)


def over_axes(name, reference, dtypes, **more):
    """All axes, and one of a matrix kept."""
    keywords = {"elementwise": False, "has_out": False, **more}
    inner = {k: v for k, v in keywords.items() if k != "rejects"}
    return [
        OpCase(name, reference, dtypes, shapes=SHAPES, **keywords),
        OpCase(name, reference, dtypes, shapes=MATRICES, kwargs={"axis": 0}, **inner),
        OpCase(name, reference, dtypes, shapes=MATRICES, kwargs={"axis": -1, "keepdims": True}, **inner),
    ]


def nan_case(name, function, **more):
    return over_axes(name, quiet(function), (*FLOATS, "int32", "bool"), make=with_nan, **{"ulps": NAN_ULPS, **more})


def matrix_case(name, reference, **more):
    return OpCase(name, reference, ARITHMETIC, shapes=MATRICES, elementwise=False, has_out=False, **more)


CASES = [
    *nan_case("nansum", np.nansum, result_dtype=wide),
    *nan_case("nanprod", np.nanprod, result_dtype=wide),
    *nan_case("nanmean", np.nanmean, result_dtype=float_of),
    *nan_case("nanvar", np.nanvar, result_dtype=float_of, ulps=dict.fromkeys((*FLOATS, "int32", "bool"), 64.0)),
    *nan_case("nanstd", np.nanstd, result_dtype=float_of, ulps=dict.fromkeys((*FLOATS, "int32", "bool"), 64.0)),
    *nan_case("nanmax", np.nanmax),
    *nan_case("nanmin", np.nanmin),
    *over_axes("median", quiet(np.median), REAL, result_dtype=float_of, ulps=NAN_ULPS, rejects=("complex64", *STORED)),
    *over_axes("count_nonzero", np.count_nonzero, ARITHMETIC, result_dtype=index),
    *over_axes(
        "logsumexp",
        logsumexp,
        FLOATS,
        make=uniform(1, 9),
        ulps={"float32": 16.0, "float64": 16.0},
        rejects=("int32", "complex64"),
    ),
    OpCase(
        "log_softmax",
        log_softmax,
        shapes=SHAPES,
        ulps={"float16": 2.0, "bfloat16": 2.0, "float32": 64.0, "float64": 64.0},
        elementwise=False,
        has_out=False,
    ),
    *[
        OpCase(
            "cumprod",
            running_product,
            ARITHMETIC,
            make=near_one,
            result_dtype=wide,
            shapes=((0,), (31,), (4097,), (3, 33)),
            ulps=SUM_ULPS,
            elementwise=False,
            kwargs=kwargs,
            rejects=() if kwargs else STORED,
        )
        for kwargs in ({}, {"axis": -1})
    ],
    matrix_case("tril", np.tril),
    matrix_case("triu", np.triu),
    matrix_case("tril", np.tril, kwargs={"k": -2}),
    matrix_case("triu", np.triu, kwargs={"k": 1}),
    matrix_case("diag", np.diag),
    matrix_case("diag", np.diag, kwargs={"k": -1}),
]

DEDICATED = {
    "cumulative_sum": "test_statistics.py::test_cumulative",
    "cumulative_prod": "test_statistics.py::test_cumulative",
    "diff": "test_statistics.py::test_diff",
    "quantile": "test_statistics.py::test_quantile",
    "percentile": "test_statistics.py::test_quantile",
    "bincount": "test_statistics.py::test_bincount",
    "histogram": "test_statistics.py::test_histogram",
    "interp": "test_statistics.py::test_interp",
    "meshgrid": "test_statistics.py::test_meshgrid",
    "hstack": "test_statistics.py::test_stacks",
    "vstack": "test_statistics.py::test_stacks",
    "array_split": "test_statistics.py::test_array_split",
}
