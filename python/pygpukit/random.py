"""Random numbers: counter-based, the same bits for the same seed on every device."""

from __future__ import annotations

from pygpukit._core.random import (
    Generator,
    default_rng,
    get_state,
    normal,
    randint,
    seed,
    set_state,
    uniform,
)

__all__ = [
    "Generator",
    "default_rng",
    "get_state",
    "normal",
    "randint",
    "seed",
    "set_state",
    "uniform",
]
