"""Special values of complex functions, as Annex G of the C standard and the array standard have them."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp

INF, NAN = np.inf, np.nan
SIDES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, INF, -INF, NAN]
POINTS = np.array([complex(a, b) for a in SIDES for b in SIDES])
# Where the standard leaves the sign of a part open, or NumPy does not follow it.
FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def part_is(got, expected, other):
    """Beside a NaN part the signs of zeros and infinities are open."""
    if np.isnan(expected):
        return np.isnan(got)
    if np.isnan(other):
        return abs(got) == abs(expected) or np.isclose(abs(got), abs(expected))
    return np.isclose(got, expected, rtol=1e-14, atol=1e-15) and np.signbit(got) == np.signbit(expected)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_special_values(name, dtype, device):
    got = getattr(gp, name)(gp.asarray(POINTS, dtype="complex128")).to_numpy()
    if dtype == "complex64":
        narrow = getattr(gp, name)(gp.asarray(POINTS, dtype=dtype)).to_numpy()
        np.testing.assert_array_equal(narrow.view("float32"), got.astype(dtype).view("float32"))
        return
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](POINTS)
    for point, a, b in zip(POINTS, got, expected, strict=True):
        unsigned = name == "exp" and np.isinf(point.real) and np.isinf(point.imag) and point.real < 0
        if unsigned:
            assert a == 0
            continue
        assert part_is(a.real, b.real, b.imag) and part_is(a.imag, b.imag, b.real), f"{name}({point}) = {a}, not {b}"


@pytest.mark.parametrize(
    "point, expected",
    [
        (complex(-INF, INF), (-1, 0)),
        (complex(INF, 0), (INF, 0)),
        (complex(INF, INF), (INF, NAN)),
        (complex(-INF, 1), (-1, 0)),
        (complex(NAN, 0), (NAN, 0)),
        (complex(1, INF), (NAN, NAN)),
        (complex(1e-20, 1e-20), (1e-20, 1e-20)),
    ],
)
def test_expm1_special_values(point, expected, device):
    got = gp.expm1(gp.asarray([point], dtype="complex128")).to_numpy()[0]
    np.testing.assert_allclose([got.real, got.imag], expected, rtol=1e-15)


def test_log1p_near_zero(device):
    points = np.array([1e-20 + 1e-20j, -1e-18j, 5.3577463901592546e-08 - 1.6639963455198815e-08j, -1 + 0j])
    got = gp.log1p(gp.asarray(points, dtype="complex128")).to_numpy()
    expected = [1e-20 + 1e-20j, 5e-37 - 1e-18j, 5.357746260476445e-08 - 1.6639962563671822e-08j, complex(-INF, 0)]
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_far_from_zero(device):
    far = np.array([1e200 + 1e200j, -3e300 + 2j, 1e-310 + 1e-310j, 1.7e308 + 1.7e308j], dtype="complex128")
    for name in ("sqrt", "log", "asinh", "acosh", "asin", "acos", "atan", "tanh"):
        with np.errstate(all="ignore"):
            expected = FUNCTIONS[name](far)
        got = getattr(gp, name)(gp.asarray(far, dtype="complex128")).to_numpy()
        np.testing.assert_allclose(got.real, expected.real, rtol=1e-14, atol=1e-320, err_msg=name)
        np.testing.assert_allclose(got.imag, expected.imag, rtol=1e-14, atol=1e-310, err_msg=name)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_quotients_of_the_smallest_numbers(device, dtype):
    least = float(np.finfo(dtype).smallest_subnormal)
    parts = [sign * n * least for n in (0, 8, 2**20) for sign in (1, -1)]
    below = np.array([complex(re, im) for re in parts for im in parts if re or im], dtype)
    above = np.roll(below, 7)
    larger = above.astype("complex128") * 2.0**400, below.astype("complex128") * 2.0**400
    got = (gp.asarray(above) / gp.asarray(below)).to_numpy()
    np.testing.assert_allclose(got, larger[0] / larger[1], rtol=1e-3)  # few digits are left
    assert complex((gp.asarray(below[:1], dtype=dtype) / gp.asarray(below[:1], dtype=dtype)).item()) == 1


def test_powers(device):
    base = gp.asarray([0, 0, 0, 1j, -2 + 1j], dtype="complex128")
    exponent = gp.asarray([0, 2, -1, 2, -3], dtype="complex128")
    got = gp.pow(base, exponent).to_numpy()
    assert got[0] == 1 and got[1] == 0 and np.isnan(got[2]) and got[3] == -1
    np.testing.assert_allclose(got[4], (-2 + 1j) ** -3, rtol=1e-15)
    np.testing.assert_allclose((base**2).to_numpy(), base.to_numpy() ** 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_nextafter_steps_in_its_own_format(dtype, device):
    x = gp.asarray([1.0, 1.0, -1.0, 0.0, 0.0, -0.0, INF, NAN, 1.0, 1.0], dtype=dtype)
    y = gp.asarray([2.0, -5.0, 0.0, 1.0, -1.0, 0.0, 0.0, 1.0, NAN, 1.0], dtype=dtype)
    info = gp.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    expected = [1 + info.eps, 1 - info.eps / 2, -1 + info.eps / 2, smallest, -smallest, 0.0, info.max, NAN, NAN, 1.0]
    got = gp.nextafter(x, y)
    assert got.dtype == gp.DataType.from_string(dtype)
    np.testing.assert_array_equal(got.astype("float64").to_numpy(), expected)
    assert not np.signbit(got.astype("float64").to_numpy()[5])


def test_logaddexp_of_infinities(device):
    a = gp.asarray([INF, -INF, -INF, 1000.0, NAN], dtype="float64")
    b = gp.asarray([INF, -INF, 3.0, 1000.0, 1.0], dtype="float64")
    np.testing.assert_allclose(gp.logaddexp(a, b).to_numpy(), [INF, -INF, 3, 1000 + np.log(2), NAN])
