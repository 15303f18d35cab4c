"""Elementwise operations."""

from __future__ import annotations

import math

import numpy as np
from opcase import ARITHMETIC, COMPLEX, FLOATS, INTEGERS, NUMBERS, SIGNED, OpCase, normal, round_to, uniform

REAL = ("bool", *NUMBERS)
STORED = ("float8_e4m3", "float8_e5m2")


def as_bool(dtype):
    return "bool"


def real_dtype(dtype):
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def quotient_dtype(dtype):
    return "float64" if dtype in INTEGERS else dtype


def nonzero(rng, shape, dtype):
    values = normal(rng, shape, dtype)
    return np.where(values == 0, values.dtype.type(3), values)


def with_ties(rng, shape, dtype):
    """Few different values, so that comparisons meet equal ones; NaN among floats."""
    if dtype == "bool":
        return normal(rng, shape, dtype)
    values = rng.integers(0, 3, shape)
    if dtype in FLOATS:
        return np.where(rng.random(shape) < 0.1, np.nan, values.astype(np.float64))
    return values.astype(np.complex128 if dtype in COMPLEX else dtype)


def with_specials(rng, shape, dtype):
    """NaN, infinities and signed zeros among ordinary values."""
    values = np.asarray(normal(rng, shape, dtype))
    if dtype not in FLOATS + COMPLEX:
        return values
    special = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]), shape)
    return np.where(rng.random(shape) < 0.3, special, values)


def halves(rng, shape, dtype):
    """Multiples of a half and their neighbours."""
    return round_to(rng.integers(-9, 10, shape) / 2 + rng.choice([0.0, 1e-3, -1e-3], shape), dtype)


def divide(a, b):
    return np.true_divide(a, b)


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    x = x.astype(np.longdouble)  # 1 + tanh cancels
    u = np.sqrt(2 / np.longdouble(np.pi)) * (x + np.longdouble("0.044715") * x**3)
    return (0.5 * x * (1 + np.tanh(u))).astype(np.float64)


def integer_square(x):
    return x * x


def sign(x):
    return np.where(np.isnan(x), np.nan, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


def shifted(function):
    """NumPy leaves counts past the width to the machine; ours shift everything out."""

    def reference(a, b):
        width = 8 * a.dtype.itemsize
        gone = (b < 0) | (b >= width)
        shifted = function(a, np.where(gone, 0, b).astype(b.dtype))
        empty = -(a < 0).astype(a.dtype) if function is np.right_shift and a.dtype.kind == "i" else np.zeros_like(a)
        return np.where(gone, empty, shifted)

    return reference


# Error bounds on the GPU, in ulp of the result; the C library is better.
MATH = {"float32": 4.0, "float64": 4.0}
# The exponent's rounding error grows with the argument.
GELU = {"float32": 24.0, "float64": 24.0}


def binary(name, reference, dtypes, **more):
    return OpCase(name, reference, dtypes, arity=2, scalars=True, **more)


def unary(name, reference, dtypes=FLOATS, **more):
    more.setdefault("rejects", ("int32", "bool", "complex64", *STORED) if dtypes is FLOATS else STORED)
    return OpCase(name, reference, dtypes, **more)


def math_case(name, reference, make=normal, ulps=MATH):
    return unary(name, reference, make=make, ulps=ulps, rejects=("complex64", *STORED))


def field_case(name, reference, make=normal, ulps=MATH, complex_ulps=8.0, aliases=()):
    """A function of complex numbers too; integers count as float64."""
    return [
        unary(name, reference, make=make, ulps=ulps, aliases=aliases, rejects=STORED),
        unary(name, reference, COMPLEX, ulps={"complex64": 1.0, "complex128": complex_ulps}),
        unary(
            name,
            lambda x: reference(x.astype(np.float64)),
            ("bool", "int32", "uint8"),
            make=lambda rng, shape, dtype: (np.abs(make(rng, shape, "float64")) > 0.4).astype(dtype),
            result_dtype=lambda dtype: "float64",
            ulps=4.0,
        ),
    ]


def complex_sign(x):
    return np.where(x == 0, 0, x / np.abs(np.where(x == 0, 1, x)))


CASES = [
    binary("add", np.add, ARITHMETIC, rejects=STORED),
    binary("subtract", np.subtract, NUMBERS + COMPLEX, aliases=("sub",), rejects=("bool", *STORED)),
    binary(
        "multiply",
        np.multiply,
        ARITHMETIC,
        aliases=("mul",),
        rejects=STORED,
        ulps={"complex64": 3.0, "complex128": 3.0},
    ),
    binary(
        "divide",
        divide,
        NUMBERS + COMPLEX,
        makes=(None, nonzero),
        aliases=("div",),
        result_dtype=quotient_dtype,
        rejects=STORED,
        ulps={"complex64": 6.0, "complex128": 6.0},
    ),
    binary("minimum", np.minimum, REAL, make=with_ties, rejects=("complex64", *STORED)),
    binary("maximum", np.maximum, REAL, make=with_ties, rejects=("complex64", *STORED)),
    binary("remainder", np.remainder, NUMBERS, aliases=("mod",), makes=(None, nonzero), rejects=("bool", "complex64", *STORED)),
    binary("floor_divide", np.floor_divide, NUMBERS, makes=(None, nonzero), rejects=("bool", "complex64", *STORED)),
    binary(
        "pow",
        np.power,
        FLOATS,
        makes=(uniform(0.1, 4), normal),
        aliases=("power",),
        rejects=("bool",),
        ulps={"float32": 8.0, "float64": 4.0},
    ),
    binary("pow", np.power, INTEGERS, makes=(normal, uniform(0, 9))),
    binary("pow", np.power, COMPLEX, ulps={"complex64": 2.0, "complex128": 32.0}),
    binary("hypot", np.hypot, FLOATS, ulps=MATH, rejects=("int32", "bool", "complex64")),
    binary("copysign", np.copysign, FLOATS, make=with_specials, rejects=("int32", "bool", "complex64")),
    binary("logaddexp", np.logaddexp, FLOATS, make=uniform(1, 9), ulps=MATH, rejects=("int32", "bool", "complex64")),
    OpCase("nextafter", np.nextafter, ("float64",), 2, make=with_specials, rejects=("int32", "bool", "complex64")),
    binary("atan2", np.arctan2, FLOATS, aliases=("arctan2",), ulps=MATH, rejects=("int32", "bool", "complex64")),
    binary("equal", np.equal, ARITHMETIC, make=with_ties, result_dtype=as_bool, rejects=STORED),
    binary("not_equal", np.not_equal, ARITHMETIC, make=with_ties, result_dtype=as_bool, rejects=STORED),
    binary("less", np.less, REAL, make=with_ties, result_dtype=as_bool, rejects=("complex64", *STORED)),
    binary("less_equal", np.less_equal, REAL, make=with_ties, result_dtype=as_bool, rejects=("complex64", *STORED)),
    binary("greater", np.greater, REAL, make=with_ties, result_dtype=as_bool, rejects=("complex64", *STORED)),
    binary(
        "greater_equal", np.greater_equal, REAL, make=with_ties, result_dtype=as_bool, rejects=("complex64", *STORED)
    ),
    OpCase("logical_and", np.logical_and, ARITHMETIC, 2, make=with_ties, result_dtype=as_bool, rejects=("int4",)),
    OpCase("logical_or", np.logical_or, ARITHMETIC, 2, make=with_ties, result_dtype=as_bool, rejects=("int4",)),
    OpCase("logical_xor", np.logical_xor, ARITHMETIC, 2, make=with_ties, result_dtype=as_bool, rejects=("int4",)),
    binary("bitwise_and", np.bitwise_and, ("bool", *INTEGERS), rejects=("float32", "complex64")),
    binary("bitwise_or", np.bitwise_or, ("bool", *INTEGERS), rejects=("float32", "complex64")),
    binary("bitwise_xor", np.bitwise_xor, ("bool", *INTEGERS), rejects=("float32", "complex64")),
    binary(
        "bitwise_left_shift",
        shifted(np.left_shift),
        INTEGERS,
        makes=(None, uniform(-2, 70)),
        aliases=("left_shift",),
        rejects=("float32", "bool"),
    ),
    binary(
        "bitwise_right_shift",
        shifted(np.right_shift),
        INTEGERS,
        makes=(None, uniform(-2, 70)),
        aliases=("right_shift",),
        rejects=("float32", "bool"),
    ),
    unary("negative", np.negative, NUMBERS + COMPLEX, aliases=("neg",), rejects=("bool", *STORED)),
    unary("positive", np.positive, NUMBERS + COMPLEX, rejects=("bool", *STORED)),
    unary(
        "abs",
        np.abs,
        NUMBERS + COMPLEX,
        result_dtype=real_dtype,
        aliases=("absolute",),
        rejects=("bool", *STORED),
        ulps={"complex64": 2.0, "complex128": 2.0},
    ),
    unary("sign", sign, NUMBERS, make=with_specials, rejects=("bool", *STORED)),
    unary("sign", complex_sign, COMPLEX, ulps={"complex64": 2.0, "complex128": 4.0}),
    unary("conj", np.conj, NUMBERS + COMPLEX, rejects=("bool", *STORED)),
    unary(
        "square",
        integer_square,
        NUMBERS + COMPLEX,
        rejects=("bool", *STORED),
        ulps={"complex64": 3.0, "complex128": 3.0},
    ),
    unary(
        "reciprocal",
        lambda x: 1 / x,
        FLOATS + COMPLEX,
        make=nonzero,
        rejects=("int32", "bool"),
        ulps={"complex64": 6.0, "complex128": 6.0},
    ),
    unary("relu", lambda x: np.maximum(x, x.dtype.type(0)), NUMBERS, make=with_specials, rejects=("bool", "complex64")),
    unary("relu2", lambda x: np.square(np.maximum(x, x.dtype.type(0))), NUMBERS, rejects=("bool", "complex64")),
    unary("floor", np.floor, FLOATS, make=halves, rejects=("bool", "complex64")),
    unary("ceil", np.ceil, FLOATS, make=halves, rejects=("bool", "complex64")),
    unary("round", np.rint, FLOATS, make=halves, rejects=("bool", *STORED)),
    unary("round", np.rint, COMPLEX),
    unary("trunc", np.trunc, FLOATS, make=halves, rejects=("bool", "complex64")),
    unary("floor", lambda x: x, SIGNED, rejects=()),
    unary("ceil", lambda x: x, INTEGERS, rejects=()),
    unary("round", lambda x: x, INTEGERS, rejects=()),
    unary("trunc", lambda x: x, SIGNED, rejects=()),
    *field_case("exp", np.exp, uniform(-9, 9)),
    *field_case("expm1", np.expm1),
    *field_case("log", np.log, uniform(1e-3, 50)),
    *field_case("log1p", np.log1p, uniform(-0.9, 9), complex_ulps=2.0**20),  # |1 + z| near 1 cancels
    *field_case("log2", np.log2, uniform(1e-3, 50)),
    *field_case("log10", np.log10, uniform(1e-3, 50)),
    *field_case("sqrt", np.sqrt, uniform(0, 99), 1.0),
    math_case("rsqrt", lambda x: 1 / np.sqrt(x), uniform(1e-2, 99)),
    *field_case("sin", np.sin, uniform(-20, 20)),
    *field_case("cos", np.cos, uniform(-20, 20)),
    *field_case("tan", np.tan, uniform(-20, 20), {"float32": 8.0, "float64": 4.0}),
    *field_case("asin", np.arcsin, uniform(-1, 1), aliases=("arcsin",)),
    *field_case("acos", np.arccos, uniform(-1, 1), aliases=("arccos",)),
    *field_case("atan", np.arctan, aliases=("arctan",)),
    *field_case("sinh", np.sinh),
    *field_case("cosh", np.cosh),
    *field_case("tanh", np.tanh),
    *field_case("asinh", np.arcsinh, aliases=("arcsinh",)),
    *field_case("acosh", np.arccosh, uniform(1, 50), aliases=("arccosh",)),
    *field_case("atanh", np.arctanh, uniform(-0.5, 0.5), aliases=("arctanh",)),
    math_case("erf", erf),
    math_case("sigmoid", sigmoid, ulps={"float32": 4.0, "float64": 4.0}),
    math_case("silu", lambda x: x * sigmoid(x), ulps={"float32": 8.0, "float64": 8.0}),
    math_case("gelu", gelu, uniform(-3, 6), GELU),
    unary("signbit", np.signbit, FLOATS, make=with_specials, result_dtype=as_bool, rejects=("int32", "complex64")),
    unary("isnan", np.isnan, ARITHMETIC, make=with_specials, result_dtype=as_bool),
    unary("isinf", np.isinf, ARITHMETIC, make=with_specials, result_dtype=as_bool),
    unary("isfinite", np.isfinite, ARITHMETIC, make=with_specials, result_dtype=as_bool),
    unary("logical_not", np.logical_not, ARITHMETIC, make=with_ties, result_dtype=as_bool),
    unary(
        "bitwise_invert", np.invert, ("bool", *INTEGERS), aliases=("invert",), rejects=("float32", "complex64", *STORED)
    ),
    OpCase(
        "clamp",
        lambda x, min_val, max_val: np.clip(x, min_val, max_val),
        NUMBERS,
        make=with_specials,
        kwargs={"min_val": 1, "max_val": 3},
        rejects=("complex64", *STORED),
    ),
    OpCase("where", np.where, ARITHMETIC, arity=3, input_dtypes=("bool",)),
    OpCase("where", np.where, FLOATS, arity=3, makes=(with_ties,), input_dtypes=("int32",)),
]

DEDICATED = {
    "isclose": "test_closeness.py::test_isclose",
    "allclose": "test_closeness.py::test_isclose",
    "array_equal": "test_closeness.py::test_array_equal",
    "astype": "test_cast.py::test_cast_between_all_dtypes",
    "clip": "test_elementwise.py::test_clip_is_clamp",
    "real": "test_cast.py::test_parts_of_complex",
    "imag": "test_cast.py::test_parts_of_complex",
    "cast_f32_to_bf16": "test_cast.py::test_named_casts",
    "cast_f32_to_f16": "test_cast.py::test_named_casts",
    "cast_bf16_to_f32": "test_cast.py::test_named_casts",
    "cast_f16_to_f32": "test_cast.py::test_named_casts",
    "add_inplace": "test_elementwise.py::test_in_place",
    "mul_inplace": "test_elementwise.py::test_in_place",
    "copy_to": "test_elementwise.py::test_copy_to",
}
