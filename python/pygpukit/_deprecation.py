"""Marking public names that will go."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["deprecated", "warn_deprecated"]


def warn_deprecated(name: str, *, since: str, removal: str, instead: str | None = None, stacklevel: int = 2) -> None:
    """Warns that ``name`` is deprecated since one version and goes in a later one."""
    text = f"{name} is deprecated since {since} and goes in {removal}"
    if instead:
        text += f": use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


def deprecated(*, since: str, removal: str, instead: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: every call warns. ``removal`` is at least one minor version after ``since``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            warn_deprecated(function.__qualname__, since=since, removal=removal, instead=instead)
            return function(*args, **kwargs)

        return wrapper

    return decorate
