"""Random numbers: counter-based, the same bits on every device."""

from typing import SupportsIndex

import pygpukit._core
import pygpukit.typing


def default_rng(seed: Generator | SupportsIndex | None = None) -> Generator:
    """
    A Generator of that seed, 0 when not given: the same program, the same numbers. A Generator is given back.
    """

def permutation(x: pygpukit.typing.Elements, axis: SupportsIndex = 0) -> pygpukit._core.GPUArray:
    """Generator.permutation of the default generator."""

def shuffle(x: pygpukit._core.GPUArray, axis: SupportsIndex = 0) -> None:
    """Generator.shuffle of the default generator."""

def choice(a: pygpukit.typing.Elements, size: pygpukit.typing.ShapeLike | None = None, replace: bool = True, p: pygpukit.typing.Elements | None = None, axis: SupportsIndex = 0) -> pygpukit._core.GPUArray:
    """Generator.choice of the default generator."""

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

    def random(self, size: pygpukit.typing.ShapeLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, *, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Reals in [0, 1), float32 unless dtype is given."""

    def standard_normal(self, size: pygpukit.typing.ShapeLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, *, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Normal numbers of mean 0 and deviation 1."""

    def standard_exponential(self, size: pygpukit.typing.ShapeLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, *, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Exponential numbers of scale 1."""

    def standard_gamma(self, shape: pygpukit.typing.Number, size: pygpukit.typing.ShapeLike | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Gamma numbers of scale 1."""

    def exponential(self, scale: pygpukit.typing.Number = 1.0, size: pygpukit.typing.ShapeLike | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """
        Exponential numbers of mean scale. All of these methods give the same bits for the same state on every device.
        """

    def gamma(self, shape: pygpukit.typing.Number, scale: pygpukit.typing.Number = 1.0, size: pygpukit.typing.ShapeLike | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Gamma numbers."""

    def beta(self, a: pygpukit.typing.Number, b: pygpukit.typing.Number, size: pygpukit.typing.ShapeLike | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Beta numbers."""

    def poisson(self, lam: pygpukit.typing.Number = 1.0, size: pygpukit.typing.ShapeLike | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Poisson numbers of mean lam, int64 unless dtype is given."""

    def geometric(self, p: pygpukit.typing.Number, size: pygpukit.typing.ShapeLike | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Trials up to the first success of chance p: 1, 2, ..."""

    def binomial(self, n: SupportsIndex, p: pygpukit.typing.Number, size: pygpukit.typing.ShapeLike | None = None, *, dtype: pygpukit.typing.DTypeLike | None = None, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """Successes of n trials of chance p."""

    def integers(self, low: pygpukit.typing.Number, high: pygpukit.typing.Number | None = None, size: pygpukit.typing.ShapeLike | None = None, dtype: pygpukit.typing.DTypeLike | None = None, endpoint: bool = False, *, out: pygpukit._core.GPUArray | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
        """
        Integers in [low, high), or [0, low) without high; endpoint includes high.
        """

    def permutation(self, x: pygpukit.typing.Elements, axis: SupportsIndex = 0) -> pygpukit._core.GPUArray:
        """0 ... x - 1, or the slices of x along axis, in a random order."""

    def shuffle(self, x: pygpukit._core.GPUArray, axis: SupportsIndex = 0) -> None:
        """The slices of x along axis brought into a random order, in place."""

    def choice(self, a: pygpukit.typing.Elements, size: pygpukit.typing.ShapeLike | None = None, replace: bool = True, p: pygpukit.typing.Elements | None = None, axis: SupportsIndex = 0) -> pygpukit._core.GPUArray:
        """
        Elements of a, or of 0 ... a - 1, at random: equally likely, or with the chances p, which are divided by their sum. With p it waits for the device.
        """

    def jumped(self, jumps: SupportsIndex = 1) -> Generator:
        """
        A new generator, 2^40 offsets further on in the same sequence for each jump.
        """

    def spawn(self, n_children: SupportsIndex) -> list[Generator]:
        """Independent generators, others at each call."""

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
