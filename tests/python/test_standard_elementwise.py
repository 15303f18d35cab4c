"""Elementwise functions and operators against array-api-strict: every dtype pair, scalars, values at the edges."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from standard_values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, Differences, special

import pygpukit as gp

UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_invert",
    "ceil",
    "conj",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "floor",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "negative",
    "positive",
    "real",
    "reciprocal",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "square",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
BINARY = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "divide",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "less",
    "less_equal",
    "logaddexp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "not_equal",
    "pow",
    "remainder",
    "subtract",
]
# The oracle is less exact than the standard asks for: test_complex_math.py has references of its own.
OWN_COMPLEX_REFERENCES = {"expm1", "log1p", "pow"}
ORDER = {"greater", "greater_equal", "less", "less_equal", "maximum", "minimum"}
# Defined for some values only.
DIVIDES = {"floor_divide", "remainder", "divide"}
SCALARS = [True, False, 0, 2, -1, 3, 1.5, NAN, 2j]

OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift, "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
IN_PLACE = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "&=": operator.iand, "|=": operator.ior,
    "^=": operator.ixor, "<<=": operator.ilshift, ">>=": operator.irshift,
}  # fmt: skip


def open_in_complex(got, expected, *inputs):
    """What the standard leaves open for complex numbers, or test_complex_math.py compares: numbers not finite."""
    if got.dtype.kind != "c" and not any(np.iscomplexobj(x) for x in inputs):
        return np.zeros(got.shape, bool)
    finite = np.isfinite(expected) & np.isfinite(got)
    for x in inputs:
        finite = finite & np.isfinite(x)
    return ~finite


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(device, name):
    d = Differences(signed_zeros=name != "sign", accept=open_in_complex)
    for dtype in ALL:
        if dtype not in COMPLEX or name not in OWN_COMPLEX_REFERENCES:
            d.check(dtype, lambda m, x: getattr(m, name)(x), special(dtype))
    d.finish()


def open_in_pairs(got, expected, a, b=1.0):
    """An infinite operand of //, where the standard prefers the floor of the quotient to what the oracle gives."""
    return np.isinf(a) | np.isinf(b)


def operands(name, first, second):
    """Both dtypes' values, without what the standard leaves undefined for integers."""
    a, b = special(first), special(second)
    a, b = a[:: len(a) // 24 + 1], b[:: len(b) // 24 + 1]
    whole = second in INTEGERS
    if name.endswith("shift") and whole:
        b = np.array([0, 1, 3, 7], second)
    if name == "pow" and whole:
        b = np.array([0, 1, 2, 3], second)
    if name in DIVIDES and whole:
        b = b[(b != 0) & (b.astype("float64") != -1)]
    return a[:, None], b[None, :]


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(device, name):
    accept = open_in_pairs if name == "floor_divide" else open_in_complex
    d = Differences(scale=512 if name == "pow" else 64, accept=accept)
    for first in ALL:
        for second in ALL:
            if name in OWN_COMPLEX_REFERENCES and (first in COMPLEX or second in COMPLEX):
                continue
            arguments = operands(name, first, second)
            d.check(f"{first}, {second}", lambda m, x, y: getattr(m, name)(x, y), *arguments)
    d.finish()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_an_array_and_a_number(device, name):
    d = Differences(scale=512, accept=open_in_pairs if name == "floor_divide" else open_in_complex)
    for dtype in ALL:
        x = special(dtype)
        for value in SCALARS:
            if isinstance(value, complex) and name in ORDER | OWN_COMPLEX_REFERENCES:
                continue
            if dtype in COMPLEX and name in OWN_COMPLEX_REFERENCES:
                continue
            undefined = isinstance(value, int) and (name in DIVIDES or name.endswith("shift") or name == "pow")
            if undefined and (value in (0, -1) or value is True):
                continue
            d.check(f"{dtype}, {value}", lambda m, a, v=value: getattr(m, name)(a, v), x)
            if not (undefined and dtype in INTEGERS):
                d.check(f"{value}, {dtype}", lambda m, a, v=value: getattr(m, name)(v, a), x)
    d.finish()


def few(dtype):
    return np.array([True, False, True]) if dtype == "bool" else np.array([1, 2, 3], dtype)


def in_place(function):
    def apply(module, x, y):
        x = module.asarray(x, copy=True)
        kept = x
        x = function(x, y)
        assert x is kept
        return x

    return apply


def test_operators(device):
    d = Differences(scale=512)
    for first in ALL:
        for symbol, function in OPERATORS.items():
            for second in ALL:
                d.check(f"{first} {symbol} {second}", lambda m, x, y, f=function: f(x, y), few(first), few(second))
            for value in (True, 2, 1.5, 2j):
                if isinstance(value, complex) and symbol in ("<", "<=", ">", ">="):
                    continue
                d.check(f"{first} {symbol} {value}", lambda m, x, v=value, f=function: f(x, v), few(first))
                d.check(f"{value} {symbol} {first}", lambda m, x, v=value, f=function: f(v, x), few(first))
        for function in (operator.neg, operator.pos, operator.invert, operator.abs):
            d.check(f"{function.__name__} {first}", lambda m, x, f=function: f(x), few(first))
    d.finish(at_least=500)


def test_operators_in_place(device):
    d = Differences(scale=512)
    for first in ALL:
        for symbol, function in IN_PLACE.items():
            for second in ALL:
                d.check(f"{first} {symbol} {second}", in_place(function), few(first), few(second))
            for value in (True, 2, 1.5, 2j):
                d.check(f"{first} {symbol} {value}", lambda m, x, v=value, f=function: in_place(f)(m, x, v), few(first))
    d.finish(at_least=200)


# ---- Cases that the standard states and the oracle gets wrong or has not.

FLOOR_DIVIDE = [
    (INF, 2, INF), (INF, -2, -INF), (-INF, 2, -INF), (-INF, -2, INF), (INF, INF, NAN), (-INF, INF, NAN),
    (3, INF, 0.0), (3, -INF, -0.0), (-3, INF, -0.0), (-3, -INF, 0.0), (0.0, INF, 0.0), (-0.0, INF, -0.0),
    (NAN, 1, NAN), (1, NAN, NAN), (INF, NAN, NAN), (0.0, 0.0, NAN), (3, 0.0, INF), (3, -0.0, -INF), (-3, 0.0, -INF),
    (0.0, 3, 0.0), (-0.0, 3, -0.0), (0.0, -3, -0.0), (-0.0, -3, 0.0), (7, 2, 3), (-7, 2, -4), (7, -2, -4),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS, "float16", "bfloat16"])
def test_floor_divide_is_the_floor_of_the_quotient(device, dtype):
    a, b, expected = np.array(FLOOR_DIVIDE).T
    x, y = gp.asarray(a, dtype=dtype), gp.asarray(b, dtype=dtype)
    for got in (gp.floor_divide(x, y), x // y):
        np.testing.assert_array_equal(got.astype("float64").to_numpy(), expected)
        np.testing.assert_array_equal(
            gp.signbit(got).to_numpy()[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)]
        )
    x //= y
    np.testing.assert_array_equal(x.astype("float64").to_numpy(), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sign_of_zeros_is_positive_zero(device, dtype):
    got = gp.sign(gp.asarray([-0.0, 0.0, -3.0, NAN, -INF], dtype=dtype)).to_numpy()
    np.testing.assert_array_equal(got, [0, 0, -1, NAN, -1])
    assert not np.signbit(got[:2]).any()


@pytest.mark.parametrize("dtype", COMPLEX)
def test_sign_of_a_complex_nan_is_nan_in_both_parts(device, dtype):
    x = gp.asarray([complex(NAN, 0), complex(1, NAN), complex(INF, 1), complex(-0.0, 0), 3 - 4j], dtype=dtype)
    got = gp.sign(x).to_numpy()
    assert np.isnan(got[:3].real).all() and np.isnan(got[:3].imag).all()
    np.testing.assert_allclose(got[3:], [0, 0.6 - 0.8j], rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_minus_infinity_and_minus_zero(device, dtype):
    for exponent, of_infinity, of_zero in ((0.5, INF, 0.0), (2.0, INF, 0.0), (3.0, -INF, -0.0), (-3.0, -0.0, -INF)):
        x = gp.asarray([-INF, -0.0], dtype=dtype)
        results = [x**exponent, gp.pow(x, gp.full_like(x, exponent))]
        x **= exponent
        for got in [*results, x]:
            np.testing.assert_array_equal(got.to_numpy(), [of_infinity, of_zero])
            np.testing.assert_array_equal(np.signbit(got.to_numpy()), np.signbit([of_infinity, of_zero]))


@pytest.mark.parametrize("dtype", [*FLOATS, "float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "sqrt"]
)
def test_odd_functions_keep_the_sign_of_zero(device, name, dtype):
    got = getattr(gp, name)(gp.asarray([-0.0, 0.0], dtype=dtype)).astype("float64").to_numpy()
    assert not got.any() and np.signbit(got).tolist() == [True, False]
