"""Random numbers: counter-based, the same bits for the same seed on every device."""

from __future__ import annotations

from pygpukit._core.random import (
    Generator,
    choice,
    default_rng,
    get_state,
    normal,
    permutation,
    randint,
    seed,
    set_state,
    shuffle,
    uniform,
)

__all__ = [
    "Generator",
    "choice",
    "default_rng",
    "get_state",
    "normal",
    "permutation",
    "randint",
    "seed",
    "set_state",
    "shuffle",
    "uniform",
]
