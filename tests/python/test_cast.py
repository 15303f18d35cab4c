"""Conversion between dtypes, by the rules of the documentation."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import ARITHMETIC, COMPLEX, FLOATS, INTEGERS, assert_within, download, round_to, upload

import pygpukit as gp

FLOAT8 = {"float8_e4m3": (4, 3, 7, 448.0), "float8_e5m2": (5, 2, 15, 57344.0)}


def float8_values(dtype):
    """The 256 values of an 8-bit float, by its definition."""
    exponent_bits, mantissa_bits, bias, _ = FLOAT8[dtype]
    values = []
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
        mantissa = code & ((1 << mantissa_bits) - 1)
        top = (1 << exponent_bits) - 1
        if dtype == "float8_e5m2" and exponent == top:
            values.append(np.nan if mantissa else sign * np.inf)
        elif dtype == "float8_e4m3" and code & 0x7F == 0x7F:
            values.append(np.nan)
        elif exponent == 0:
            values.append(sign * mantissa * 2.0 ** (1 - bias - mantissa_bits))
        else:
            values.append(sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias))
    return np.array(values)


def cast_reference(values, source, target):
    """The documented rules, on values as round_to gives them."""
    if target == "bool":
        return values != 0
    if target in INTEGERS and source in FLOATS:
        info = np.iinfo(target)
        with np.errstate(all="ignore"):
            cut = np.where(np.isnan(values), 0, np.trunc(values))
        out = []
        for v in cut.ravel().tolist():
            out.append(min(max(int(v) if np.isfinite(v) else (info.max if v > 0 else info.min), info.min), info.max))
        return np.array(out, dtype=target).reshape(values.shape)
    if target in FLOATS and source in INTEGERS:
        # Exact integers, rounded once: Python's conversion is exact to float64, wider than any target but float64 itself.
        if target == "bfloat16":
            return np.array([round_big(int(v), 8) for v in values.ravel()]).reshape(values.shape)
        if target == "float16":
            return np.array([min(max(round_big(int(v), 11), -65536.0), 65536.0) for v in values.ravel()]).reshape(
                values.shape
            )
        return values.astype(target).astype(np.float64)
    if target in FLOATS + COMPLEX:
        return round_to(values, target)
    return values.astype(target)


def round_big(value, bits):
    """An integer rounded to `bits` significant bits, ties to even."""
    magnitude = abs(value)
    shift = max(magnitude.bit_length() - bits, 0)
    if shift:
        half = 1 << (shift - 1)
        kept = magnitude >> shift
        rest = magnitude & ((1 << shift) - 1)
        kept += rest > half or (rest == half and kept & 1)
        magnitude = kept << shift
    return float(magnitude if value >= 0 else -magnitude)


def interesting(dtype):
    if dtype == "bool":
        return np.array([False, True, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        wide = [0, 1, 2, 100, 127, info.max, info.max - 1, info.min, info.min + 1, info.max // 3]
        if np.dtype(dtype).itemsize >= 4:
            wide += [2**24 + 1, 2**24 + 3, 2**25 + 2, 2049, 2051, 257, 259, 65519, 65520]
        if np.dtype(dtype).itemsize == 8:
            wide += [2**53 + 1, 2**53 + 3, 2**54 + 2, 2**62 + 1, 2**40 + 2**30 + 1]
        return np.array([v for v in wide if info.min <= v <= info.max], dtype=dtype)
    reals = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.99,
        1.5,
        -1.5,
        2.5,
        100.7,
        127.9,
        128.0,
        -128.9,
        -129.0,
        255.9,
        256.0,
        32767.9,
        65504.0,
        65519.0,
        2147483647.0,
        2147483648.0,
        -2147483649.0,
        4294967296.0,
        9.2e18,
        9.3e18,
        -9.3e18,
        1.9e19,
        3e38,
        1e-8,
        6e-5,
        1e-40,
        np.nan,
        np.inf,
        -np.inf,
        1.0 + 2**-9,
        1.0 + 3 * 2**-9,
        1.0 + 2**-11,
        1.0 + 2**-9 + 2**-30,
    ]
    with np.errstate(all="ignore"):
        return round_to(np.array(reals), dtype) if dtype in FLOATS else round_to(np.array(reals) * (1 - 2j), dtype)


@pytest.mark.parametrize("source", ARITHMETIC)
def test_cast_between_all_dtypes(source, device):
    values = interesting(source)
    x = upload(values, source)
    for target in ARITHMETIC:
        if source in COMPLEX and target not in (*COMPLEX, "bool"):
            with pytest.raises(gp.errors.DTypeError, match="real"):
                gp.astype(x, target)
            continue
        with np.errstate(all="ignore"):
            expected = cast_reference(values, source, target)
        got = gp.astype(x, target)
        assert got.dtype.name == target
        # Bits, not values: no rounding may differ. Overflow to infinity is where NumPy has it.
        with np.errstate(all="ignore"):
            if target == "float16":
                expected = np.where(np.abs(expected) >= 65520, np.sign(expected) * np.inf, expected)
        np.testing.assert_array_equal(download(got), expected, err_msg=f"{source} to {target}")


@pytest.mark.parametrize(
    "pair", [("float32", "bfloat16"), ("int16", "float32"), ("float64", "uint8"), ("bool", "int64")]
)
def test_cast_of_views(pair, device, rng):
    source, target = pair
    values = rng.integers(0, 2 if source == "bool" else 99, (40, 33)).astype(bool if source == "bool" else np.float64)
    base = upload(values.astype(source if source != "bfloat16" else np.float64), source)
    for view, reference in [(base.T, values.T), (base[::2, 1:], values[::2, 1:]), (base[:, ::-1], values[:, ::-1])]:
        np.testing.assert_array_equal(
            download(gp.astype(view, target)), reference.astype(target if target != "bfloat16" else np.float64)
        )
    out = gp.zeros((33, 40), dtype=target)
    out.T[...] = base
    np.testing.assert_array_equal(download(out), values.T.astype(target if target != "bfloat16" else np.float64))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_casts(dtype, device):
    codes = np.arange(256, dtype=np.uint8)
    x = gp.bitcast(gp.from_numpy(codes), dtype)
    values = float8_values(dtype)
    for wide in FLOATS:
        np.testing.assert_array_equal(download(gp.astype(x, wide)), round_to(values, wide))
    # There and back: every value keeps its code, NaN stays NaN.
    back = gp.bitcast(gp.astype(gp.astype(x, "float32"), dtype), "uint8").to_numpy()
    same = (back == codes) | np.isnan(values)
    assert same.all()
    # Halfway cases go to even, large values saturate.
    finite = values[:128][np.isfinite(values[:128])]
    between = (finite[1:] + finite[:-1]) / 2
    rounded = download(gp.astype(gp.astype(gp.from_numpy(between), dtype), "float64"))
    np.testing.assert_array_equal(rounded, np.where(np.arange(len(between)) % 2 == 0, finite[:-1], finite[1:]))
    largest = FLOAT8[dtype][3]
    high = download(
        gp.astype(gp.astype(gp.from_numpy(np.array([1e30, -1e30, largest * 1.5], "float32")), dtype), "float32")
    )
    np.testing.assert_array_equal(high, [largest, -largest, largest])


def test_astype_of_the_same_dtype(device):
    x = gp.ones((3,), dtype="float32")
    assert gp.astype(x, "float32", copy=False) is x
    y = gp.astype(x, "float32")
    y[0] = 5
    assert x.to_numpy()[0] == 1
    with pytest.raises(gp.errors.DTypeError, match="int4"):
        gp.astype(x, "int4")


def test_named_casts(device, rng):
    values = rng.normal(size=1025)
    x = upload(values, "float32")
    assert_within(gp.ops.cast_f32_to_bf16(x), round_to(values.astype("f4"), "bfloat16"), "bfloat16", 0)
    assert_within(gp.ops.cast_f32_to_f16(x), round_to(values.astype("f4"), "float16"), "float16", 0)
    assert_within(
        gp.ops.cast_bf16_to_f32(upload(round_to(values, "bfloat16"), "bfloat16")),
        round_to(values, "bfloat16"),
        "float32",
        0,
    )
    assert_within(gp.ops.cast_f16_to_f32(upload(values, "float16")), round_to(values, "float16"), "float32", 0)
    out = gp.zeros((1025,), dtype="bfloat16")
    assert gp.ops.cast_f32_to_bf16(x, out=out) is out
    with pytest.raises(gp.errors.DTypeError, match="cast_f32_to_bf16: src must have dtype float32"):
        gp.ops.cast_f32_to_bf16(gp.zeros((3,), dtype="float64"))


def test_parts_of_complex(device, rng):
    values = rng.normal(size=(5, 7)) + 1j * rng.normal(size=(5, 7))
    x = gp.from_numpy(values)
    np.testing.assert_array_equal(gp.ops.real(x).to_numpy(), values.real)
    np.testing.assert_array_equal(gp.ops.imag(x.T).to_numpy(), values.imag.T)
    gp.ops.imag(x)[...] = 0  # a view
    np.testing.assert_array_equal(x.to_numpy(), values.real.astype(complex))
    with pytest.raises(gp.errors.DTypeError):
        gp.ops.imag(gp.zeros((2,), dtype="float32"))
