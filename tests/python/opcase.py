"""What a test of an operation needs to know about it, and how values get into arrays and back.

Each ``cases_<family>.py`` lists its operations in ``CASES``; ``test_ops.py`` runs all of them. Operations that do not fit
this form are named in ``DEDICATED`` with the test that covers them: ``{"copy_to": "test_elementwise.py::test_copy_to"}``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pygpukit as gp

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
NUMBERS = INTEGERS + FLOATS
ARITHMETIC = ("bool", *NUMBERS, *COMPLEX)

# Fraction bits of each format: one ulp of x is 2 ** (floor(log2 x) - bits).
_FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52, "complex64": 23, "complex128": 52}
_SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": float(np.float32(2.0**127) * 1.9921875),
    "float32": float(np.finfo("f4").max),
}

Values = np.ndarray[Any, Any]


def round_to(values: Values, dtype: str) -> Values:
    """The values an array of ``dtype`` would hold, in a NumPy dtype that can compute with them (float64 for all reals)."""
    if dtype == "bfloat16":
        bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    if dtype in FLOATS:
        return np.asarray(values).astype(dtype).astype(np.float64)
    if dtype in COMPLEX:
        return np.asarray(values).astype(dtype).astype(np.complex128)
    return np.asarray(values).astype(dtype)


def upload(values: Values, dtype: str) -> gp.GPUArray:
    """A contiguous array on the current device. bfloat16 goes in as bits, so that no cast is trusted here."""
    values = np.asarray(values)
    if dtype == "bfloat16":
        bits = (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return gp.bitcast(gp.from_numpy(bits), gp.bfloat16)
    return gp.from_numpy(np.array(values.astype(dtype)))


def download(x: gp.GPUArray) -> Values:
    """The values of an array as :func:`round_to` gives them."""
    host = x.to_numpy()
    with np.errstate(invalid="ignore"):  # signalling NaN
        if x.dtype.name == "bfloat16":
            return (host.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if x.dtype.name in FLOATS:
            return host.astype(np.float64)
        if x.dtype.name in COMPLEX:
            return host.astype(np.complex128)
    return host


def ulp(reference: Values, dtype: str) -> Values:
    """The distance between neighbours of ``dtype`` near each reference value."""
    bits = _FRACTION_BITS[dtype]
    magnitude = np.abs(np.asarray(reference))
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where((magnitude > 0) & np.isfinite(magnitude), magnitude, 1.0)))
    return np.maximum(2.0 ** (exponent - bits), _SMALLEST.get(dtype, 0.0))


def assert_within(actual: gp.GPUArray, reference: Values, dtype: str, ulps: float, what: str = "") -> None:
    """Equal for integers and bool; within ``ulps`` for reals, with NaN and infinities in the same places."""
    reference = np.asarray(reference)
    assert actual.dtype.name == dtype, f"{what}: dtype {actual.dtype.name}, expected {dtype}"
    assert tuple(actual.shape) == reference.shape, f"{what}: shape {actual.shape}, expected {reference.shape}"
    got = download(actual)
    if dtype not in FLOATS + COMPLEX:
        np.testing.assert_array_equal(got, reference.astype(got.dtype), err_msg=what)
        return
    with np.errstate(all="ignore"):
        if dtype in _LARGEST:  # what the format cannot hold is infinite
            reference = np.where(
                np.abs(reference) > _LARGEST[dtype] + ulp(reference, dtype) / 2, np.sign(reference) * np.inf, reference
            )
        exact = (got == reference) | (np.isnan(got) & np.isnan(reference))
        error = np.abs(got - reference) / ulp(reference, dtype)
        bad = ~(exact | (error <= ulps))
    if bad.any():
        at = (
            np.unravel_index(np.argmax(np.where(bad, np.nan_to_num(error, nan=np.inf), 0)), bad.shape)
            if bad.ndim
            else ()
        )
        raise AssertionError(
            f"{what}: {bad.sum()} of {bad.size} values off by more than {ulps} ulp of {dtype}; "
            f"worst at {at}: got {got[at]!r}, expected {reference[at]!r}"
        )


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Values:
    """Values around zero: normal for reals, a short range for integers, coin tosses for bool."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in UNSIGNED:
        return rng.integers(0, 100, shape).astype(dtype)
    if dtype in SIGNED:
        return rng.integers(-100, 100, shape).astype(dtype)
    if dtype in COMPLEX:
        return round_to(rng.normal(size=shape) + 1j * rng.normal(size=shape), dtype)
    return round_to(rng.normal(size=shape) * 2, dtype)


def uniform(low: float, high: float) -> Callable[[np.random.Generator, tuple[int, ...], str], Values]:
    """Reals of [low, high]; integers of the same range."""

    def make(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Values:
        if dtype in INTEGERS:
            return rng.integers(max(int(low), 0) if dtype in UNSIGNED else int(low), int(high) + 1, shape).astype(dtype)
        return round_to(rng.uniform(low, high, shape), dtype)

    return make


@dataclass(frozen=True)
class OpCase:
    """One operation. ``reference`` takes the inputs as :func:`round_to` gives them, then ``kwargs``."""

    name: str
    reference: Callable[..., Any]
    dtypes: tuple[str, ...] = FLOATS
    arity: int = 1
    make: Callable[[np.random.Generator, tuple[int, ...], str], Values] = normal
    makes: tuple[
        Callable[[np.random.Generator, tuple[int, ...], str], Values] | None, ...
    ] = ()  # per input, over `make`
    input_dtypes: tuple[str | None, ...] = ()  # per input; None: the dtype under test
    result_dtype: Callable[[str], str] = field(default=lambda dtype: dtype)
    ulps: float | dict[str, float] = 1.0
    kwargs: dict[str, Any] = field(default_factory=dict)
    shapes: tuple[tuple[int, ...], ...] = ((0,), (1,), (31,), (33,), (1025,), (), (3, 33), (2, 5, 7))
    layout_shape: tuple[int, ...] = (33, 18)
    elementwise: bool = True  # broadcasts, may write over its input
    has_out: bool = True
    scalars: bool = False  # either argument may be a Python number
    rejects: tuple[str, ...] = ()  # dtypes of the first input that raise DTypeError
    aliases: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return "-".join([self.name, *(f"{k}={v}" for k, v in self.kwargs.items())])

    def input_dtype(self, position: int, dtype: str) -> str:
        given = self.input_dtypes[position] if position < len(self.input_dtypes) else None
        return given or dtype

    def inputs(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> list[Values]:
        made = []
        for i in range(self.arity):
            make = (self.makes[i] if i < len(self.makes) else None) or self.make
            made.append(np.asarray(make(rng, shape, self.input_dtype(i, dtype))))
        return made

    def expected(self, inputs: list[Values]) -> Values:
        with np.errstate(all="ignore"):
            return np.asarray(self.reference(*inputs, **self.kwargs))

    def allowed(self, dtype: str) -> float:
        return self.ulps.get(dtype, 1.0) if isinstance(self.ulps, dict) else self.ulps
