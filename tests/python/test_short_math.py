"""Functions of 16-bit floats: every one of the 65536 arguments within 1 ulp of the float64 value, on both backends."""

import math

import numpy as np
import pytest

import pygpukit as gp

SQRT_2_PI = math.sqrt(2 / math.pi)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(SQRT_2_PI * (x + 0.044715 * x**3)))


FUNCTIONS = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "erf": np.vectorize(math.erf), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": gelu, "reciprocal": lambda x: 1 / x,
}  # fmt: skip
# gelu of large negative numbers loses every digit in the formula above; sigmoid and silu end where exp(-x) overflows.
TINY = {"gelu": 1e-7, "sigmoid": 1.2e-38, "silu": 1e-36}


def to_bits(values, dtype):
    """float64 to the nearest 16-bit float, as bits. Through float32 would round twice."""
    if dtype == "float16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def from_bits(bits, dtype):
    if dtype == "float16":
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def steps(bits):
    """Order of the values, so that neighbours differ by 1."""
    signed = bits.astype(np.int32)
    return np.where(signed & 0x8000, -(signed & 0x7FFF), signed)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_argument_is_within_one_ulp(device, dtype, name):
    bits = np.arange(65536, dtype=np.uint16)
    x = gp.bitcast(gp.from_numpy(bits, device=device), dtype)
    got = getattr(gp.ops, name)(x).to_numpy()
    got = got.view(np.uint16) if dtype == "float16" else got
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](from_bits(bits, dtype))
    want = to_bits(exact, dtype)
    assert np.array_equal(np.isnan(from_bits(got, dtype)), np.isnan(exact))
    counted = ~np.isnan(exact) & (np.abs(exact) >= TINY.get(name, 0.0))
    off = np.abs(steps(got) - steps(want))[counted]
    worst = int(off.argmax())
    assert off.max() <= 1, (from_bits(bits, dtype)[counted][worst], from_bits(got, dtype)[counted][worst])


@pytest.mark.parametrize("name", ["pow", "atan2", "remainder"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_two_arguments(device, dtype, name, rng):
    special = from_bits(
        np.array([0, 0x8000, 0x3C00, 0xBC00, 0x3F80, 0xBF80, 0x7F80, 0x7C00, 0xFC00, 1, 0x4000], np.uint16), dtype
    )
    a = np.concatenate(
        [rng.normal(0, 3, 40000), rng.normal(0, 1e-3, 5000), rng.normal(0, 200, 5000), np.repeat(special, 11)]
    )
    b = np.concatenate([rng.normal(0, 3, 40000), rng.normal(0, 3, 5000), rng.normal(0, 1, 5000), np.tile(special, 11)])
    b[:5000] = np.round(b[:5000])
    a, b = (to_bits(v, dtype) for v in (a, b))
    arrays = [gp.bitcast(gp.from_numpy(v, device=device), dtype) for v in (a, b)]
    got = getattr(gp.ops, name)(*arrays).to_numpy()
    got = got.view(np.uint16) if dtype == "float16" else got
    reference = {"pow": np.power, "atan2": np.arctan2, "remainder": np.remainder}[name]
    with np.errstate(all="ignore"):
        exact = reference(from_bits(a, dtype), from_bits(b, dtype))
    assert np.array_equal(np.isnan(from_bits(got, dtype)), np.isnan(exact))
    off = np.abs(steps(got) - steps(to_bits(exact, dtype)))[~np.isnan(exact)]
    worst = int(off.argmax())
    assert off.max() <= 1, (from_bits(a, dtype)[~np.isnan(exact)][worst], from_bits(b, dtype)[~np.isnan(exact)][worst])


@pytest.mark.parametrize("name", ["sqrt", "reciprocal"])
def test_bfloat16_is_rounded_correctly(device, name):
    bits = np.arange(65536, dtype=np.uint16)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](from_bits(bits, "bfloat16"))
    got = getattr(gp.ops, name)(gp.bitcast(gp.from_numpy(bits, device=device), "bfloat16")).to_numpy()
    numbers = ~np.isnan(exact)
    assert np.array_equal(got[numbers], to_bits(exact, "bfloat16")[numbers])


def test_bfloat16_quotients_are_rounded_correctly(device):
    """Every dividend by divisors of all sizes, subnormal and infinite ones among them."""
    bits = np.arange(65536, dtype=np.uint16)
    special = [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x7F7F, 0x7F80, 0xFF80, 0x3F80, 0x4049]
    divisors = np.r_[special, np.random.default_rng(3).integers(0, 0x7F80, 54)].astype(np.uint16)
    a = gp.bitcast(gp.from_numpy(bits, device=device), "bfloat16")
    for divisor in divisors:
        b = gp.bitcast(gp.from_numpy(np.full(65536, divisor), device=device), "bfloat16")
        with np.errstate(all="ignore"):
            exact = from_bits(bits, "bfloat16") / from_bits(np.array([divisor]), "bfloat16")
        got = gp.divide(a, b).to_numpy()
        numbers = ~np.isnan(exact)
        assert np.array_equal(np.isnan(from_bits(got, "bfloat16")), ~numbers), hex(divisor)
        assert np.array_equal(got[numbers], to_bits(exact, "bfloat16")[numbers]), hex(divisor)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_remainders_are_exact(device, dtype):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(0, 65536, 200_000).astype(np.uint16) for _ in range(2))
    b[:1000] = rng.integers(0, 0x80, 1000)  # subnormal divisors
    x, y = (from_bits(v, dtype) for v in (a, b))
    with np.errstate(all="ignore"):
        exact = np.remainder(x, y)
    counted = np.isfinite(x) & np.isfinite(y) & (y != 0)
    args = [gp.bitcast(gp.from_numpy(v, device=device), dtype) for v in (a, b)]
    got = gp.remainder(*args).to_numpy()
    got = got.view(np.uint16) if dtype == "float16" else got
    # float64 holds the remainder exactly; one rounding to 16 bits follows.
    assert np.array_equal(from_bits(got, dtype)[counted], from_bits(to_bits(exact, dtype), dtype)[counted])
