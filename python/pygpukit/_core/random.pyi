"""Random numbers: counter-based, the same bits on every device."""

from typing import SupportsIndex

import pygpukit._core
import pygpukit.typing


def seed(seed: SupportsIndex) -> None:
    """Starts the default generator over. It starts with seed 0."""

def get_state() -> tuple[int, int]:
    """The default generator's (seed, offset)."""

def set_state(state: tuple[int, int]) -> None:
    """Puts a get_state() back."""

def uniform(shape: pygpukit.typing.ShapeLike | None = None, low: pygpukit.typing.Number = 0.0, high: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, seed: SupportsIndex | None = None, device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray:
    """
    Reals in [low, high). The same seed gives the same bits on every device. seed=None draws from the generator's state, which a graph capture may not advance: give seed= and out= there. NumPy's (low, high, size) is taken where the numbers cannot mean a shape first; size= says it for sure.
    """

def normal(shape: pygpukit.typing.ShapeLike | None = None, mean: pygpukit.typing.Number = 0.0, std: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, seed: SupportsIndex | None = None, device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, loc: pygpukit.typing.Number = 0.0, scale: pygpukit.typing.Number = 1.0, size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray:
    """
    Normal reals with the given mean and standard deviation, which NumPy names loc and scale. seed, out and size as for uniform.
    """

def randint(low: pygpukit.typing.Number, high: pygpukit.typing.Number | None = None, shape: pygpukit.typing.ShapeLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, seed: SupportsIndex | None = None, device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray:
    """
    Integers in [low, high), or in [0, low) without high; no value is favoured by more than (high - low) / 2^64. seed and out as for uniform; size is shape.
    """

class Generator:
    """
    A random state of its own: each draw takes the next offset of its seed.
    """

    def __init__(self, seed: SupportsIndex = 0) -> None: ...

    def seed(self, seed: SupportsIndex) -> None:
        """Starts over."""

    def get_state(self) -> tuple[int, int]:
        """(seed, offset)"""

    def set_state(self, state: tuple[int, int]) -> None:
        """Puts a get_state() back."""

    def uniform(self, shape: pygpukit.typing.ShapeLike | None = None, low: pygpukit.typing.Number = 0.0, high: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray:
        """
        Reals in [low, high). The same seed gives the same bits on every device. seed=None draws from the generator's state, which a graph capture may not advance: give seed= and out= there. NumPy's (low, high, size) is taken where the numbers cannot mean a shape first; size= says it for sure.
        """

    def normal(self, shape: pygpukit.typing.ShapeLike | None = None, mean: pygpukit.typing.Number = 0.0, std: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, loc: pygpukit.typing.Number = 0.0, scale: pygpukit.typing.Number = 1.0, size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray:
        """
        Normal reals with the given mean and standard deviation, which NumPy names loc and scale. seed, out and size as for uniform.
        """

    def randint(self, low: pygpukit.typing.Number, high: pygpukit.typing.Number | None = None, shape: pygpukit.typing.ShapeLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray:
        """
        Integers in [low, high), or in [0, low) without high; no value is favoured by more than (high - low) / 2^64. seed and out as for uniform; size is shape.
        """
