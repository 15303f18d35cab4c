"""What the differential tests of the array API standard share: values of every dtype, and one call on both libraries.

The oracle is array-api-strict. Where both raise, or it alone raises (it refuses whatever the standard leaves open),
nothing is compared; `Differences` collects the rest, so that one test shows all of a function's deviations.
"""

from __future__ import annotations

import warnings

import array_api_strict as strict
import numpy as np

import pygpukit as gp

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    strict.set_array_api_strict_flags(api_version="2024.12")

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = SIGNED + UNSIGNED
REAL = INTEGERS + FLOATS
NUMERIC = REAL + COMPLEX
ALL = ["bool", *NUMERIC]
SHAPES = [(), (0,), (1,), (5,), (3, 4), (0, 3), (2, 0, 3), (2, 3, 4), (1, 3, 1)]
NAN, INF = float("nan"), float("inf")


def special(dtype):
    """The values at which functions do something of their own, and ordinary ones."""
    if dtype == "bool":
        return np.array([True, False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, 5, 7, 100, info.max, info.min, info.max // 2 + 1]
        return np.array(values + ([-1, -2, -3, -7, -128] if info.min else []), dtype)
    real = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5, 2.5, INF, -INF, NAN, np.pi, 1e-3, 7.25, -100]
    if dtype in COMPLEX:
        return np.array([complex(a, b) for a in real for b in real], dtype)
    info = np.finfo(dtype)
    return np.array([*real, info.max, -info.max, info.tiny, 1e-10, 1e9, -1e9, 0.7, -0.3], dtype)


def draw(rng, dtype, shape):
    """Small numbers, so that sums and products are exact or nearly so."""
    if dtype == "bool":
        return rng.integers(0, 2, shape) > 0
    if dtype in INTEGERS:
        return rng.integers(-5 if dtype in SIGNED else 0, 6, shape).astype(dtype)
    values = rng.normal(size=shape) * 3
    return np.asarray(values + 1j * rng.normal(size=shape) if dtype in COMPLEX else values).astype(dtype)


def parts_agree(got, expected, scale):
    """Relative to the dtype's precision, with the signs of zeros."""
    info = np.finfo(got.dtype)
    near = np.isclose(got, expected, rtol=info.eps * scale, atol=info.tiny, equal_nan=True)
    zeros = (got == 0) & (expected == 0)
    return near & (~zeros | (np.signbit(got) == np.signbit(expected)))


def agree(got, expected, scale=64, signed_zeros=True):
    """Element by element."""
    if got.dtype.kind in "biu":
        return got == expected
    with np.errstate(all="ignore"):
        if not signed_zeros:
            got, expected = got + 0, expected + 0
        size = np.abs(expected)
        close = np.isfinite(got) & (np.abs(got - expected) <= np.finfo(got.dtype).eps * scale * size)
        close &= size > 0
        if got.dtype.kind == "c":
            return close | (parts_agree(got.real, expected.real, scale) & parts_agree(got.imag, expected.imag, scale))
        return close | parts_agree(got, expected, scale)


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def to_host(value):
    return value.to_numpy() if isinstance(value, gp.GPUArray) else np.asarray(value._array)


def run(function, module, arguments):
    """The results, or the exception."""
    convert = [module.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return leaves(function(module, *convert))
        except Exception as error:
            return error


class Differences:
    """Calls a function of (module, *arguments) with both libraries and keeps what differs."""

    def __init__(self, scale=64, signed_zeros=True, accept=None):
        self.found, self.num_compared = [], 0
        self.scale, self.signed_zeros, self.accept = scale, signed_zeros, accept

    def check(self, label, function, *arguments):
        expected, got = run(function, strict, arguments), run(function, gp, arguments)
        if isinstance(expected, Exception):
            return
        self.num_compared += 1
        if isinstance(got, Exception):
            self.found.append(f"{label}: raises {type(got).__name__}: {got}")
        elif len(got) != len(expected):
            self.found.append(f"{label}: {len(got)} results, not {len(expected)}")
        else:
            for mine, theirs in zip(got, expected, strict=True):
                self.compare(label, mine, theirs, arguments)

    def compare(self, label, got, expected, arguments):
        if not isinstance(expected, type(strict.ones(1))):
            if got != expected and not (got != got and expected != expected):
                self.found.append(f"{label}: {got!r}, not {expected!r}")
            return
        if not isinstance(got, gp.GPUArray):
            self.found.append(f"{label}: {type(got).__name__} is no array")
            return
        got, expected = to_host(got), to_host(expected)
        if got.dtype != expected.dtype or got.shape != expected.shape:
            self.found.append(f"{label}: {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}")
            return
        good = agree(got, expected, self.scale, self.signed_zeros)
        if self.accept is not None:
            good = good | self.accept(got, expected, *arguments)
        if not np.all(good):
            at = tuple(np.argwhere(~np.atleast_1d(good))[0])
            inputs = (
                [
                    np.broadcast_to(a, got.shape)[at]
                    for a in arguments
                    if np.shape(a) and np.ndim(a) <= got.ndim and np.size(a) in (got.size, got.shape[-1])
                ]
                if got.shape
                else list(arguments)
            )
            self.found.append(
                f"{label}: {np.atleast_1d(got)[at]!r}, not {np.atleast_1d(expected)[at]!r} at {at} of {inputs!r}"[:400]
            )

    def finish(self, at_least=1):
        assert not self.found, f"{len(self.found)} deviations\n" + "\n".join(self.found[:20])
        assert self.num_compared >= at_least
