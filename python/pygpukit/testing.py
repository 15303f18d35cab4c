"""Helpers for tests of code that uses arrays."""

from __future__ import annotations

from typing import Any

from pygpukit._core import GPUArray

__all__ = ["assert_allclose", "default_tolerance"]

# Relative and absolute error one rounding to the dtype leaves, with room for a few.
_TOLERANCES: dict[str, tuple[float, float]] = {
    "float8_e5m2": (0.25, 0.25),
    "float8_e4m3": (0.125, 0.125),
    "bfloat16": (1.6e-2, 1e-2),
    "float16": (2e-3, 1e-3),
    "float32": (1e-5, 1e-6),
    "complex64": (1e-5, 1e-6),
    "float64": (1e-12, 1e-12),
    "complex128": (1e-12, 1e-12),
}


def default_tolerance(dtype: object) -> tuple[float, float]:
    """(rtol, atol) for values that were rounded to ``dtype``; (0, 0) for integers and bool."""
    return _TOLERANCES.get(str(dtype), (0.0, 0.0))


def _to_host(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, GPUArray):
        return np.asarray(value)
    name = value.dtype.name
    if name.startswith(("bfloat", "float8", "float16", "float32")):
        return value.to_numpy(dtype="float64")
    return value.to_numpy()


def assert_allclose(
    actual: Any,
    desired: Any,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    equal_nan: bool = True,
    err_msg: str = "",
) -> None:
    """AssertionError unless both have the same shape and close values.

    GPUArrays, NumPy arrays and numbers are compared in float64. Tolerances default to those of the coarser dtype.
    """
    import numpy as np

    defaults = [default_tolerance(x.dtype) for x in (actual, desired) if isinstance(x, GPUArray)]
    if rtol is None:
        rtol = max((d[0] for d in defaults), default=1e-7)
    if atol is None:
        atol = max((d[1] for d in defaults), default=0.0)
    left, right = _to_host(actual), _to_host(desired)
    if left.shape != right.shape:
        raise AssertionError(f"shapes differ: {left.shape} and {right.shape}. {err_msg}".rstrip(". "))
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, equal_nan=equal_nan, err_msg=err_msg)
