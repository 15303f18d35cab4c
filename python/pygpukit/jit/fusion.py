"""``fuse``: a function of elementwise calls as one pass over its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from pygpukit._core import _FusedFunction

__all__ = ["fuse"]

F = TypeVar("F", bound=Callable[..., Any])


@overload
def fuse(function: F, /) -> F: ...
@overload
def fuse(function: None = None, /, *, name: str | None = None) -> Callable[[F], F]: ...
def fuse(function: Any = None, /, *, name: str | None = None) -> Any:
    """A function of elementwise calls, as one pass over its arguments: ``f = gp.fuse(f)``, or a decorator.

    ``function`` takes arrays and other arguments and returns an array or a tuple of arrays of one shape. What it calls
    is written down the first time it meets arguments of these dtypes, shapes and numbers, and runs from then on as one
    kernel on a GPU, and in blocks that stay in the cache on the CPU: nothing between its steps goes to memory. The
    result has the bits of the calls one by one. It may call operators, functions of one and two numbers, comparisons,
    ``where``, ``clamp``, ``astype`` and the other operations that work on each element by itself; broadcasting and
    Python numbers are as always. Anything else raises an error that names it: reductions, products, views and indexing, values
    (``item()``, ``if x``), writing into an argument.

    Numbers are parameters of the kernel: another number traces the function again and compiles nothing. What the
    function takes from elsewhere (globals, closures) counts as it was when the function was traced.

    The result takes ``out=``: an array, or a tuple where the function returns one. With it nothing is allocated and the
    call can be captured. Where no kernel can be compiled (no NVRTC) the calls run one by one.
    """
    if function is None:
        return functools.partial(_fuse, name=name)
    return _fuse(function, name=name)


def _fuse(function: Any, *, name: str | None) -> Any:
    if not callable(function):
        raise TypeError(f"fuse: function must be callable, got {type(function).__name__}")
    fused = _FusedFunction(function, name or getattr(function, "__name__", None) or "function")

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        return fused(args, kwargs, out)

    call.fused = fused  # type: ignore[attr-defined]
    return call
