"""What a family of operations is: how its cases are drawn, and the operation by us, by torch and by NumPy."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import pygpukit as gp

__all__ = ["BOUNDS", "MOST_CHECKED", "Case", "Draw", "Family", "Input", "Layer"]

# Largest error of a right result beside float64 of the same inputs, by norms.
BOUNDS = {"bfloat16": 1e-2, "float16": 2e-3, "float32": 2e-5, "float64": 1e-11, "complex64": 2e-5}

Axes = tuple[tuple[int | None, ...], int]
MOST_CHECKED = 1 << 19  # elements

LAYOUTS = ("dense", "dense", "dense", "shifted", "gaps", "transposed")


@dataclass(frozen=True)
class Input:
    """One array: normal numbers, or what `kind` says: "index" below `limit`, "mask", "positive", "uniform", "spd"."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str = "dense"
    kind: str = "normal"
    limit: int = 0
    scale: float = 1.0

    def make(self, seed: int) -> gp.GPUArray:
        *before, last = self.shape
        if self.layout == "shifted":  # rows of another pitch that start one element late: no vector load fits
            return self._values((*before, last + 3), seed)[..., 1 : last + 1]
        if self.layout == "gaps":
            return self._values((*before, 2 * last), seed)[..., ::2]
        if self.layout == "transposed" and len(self.shape) > 1:
            return self._values((*self.shape[:-2], last, self.shape[-2]), seed).transpose(
                *range(len(self.shape) - 2), len(self.shape) - 1, len(self.shape) - 2
            )
        return self._values(self.shape, seed)

    def _values(self, shape: tuple[int, ...], seed: int) -> gp.GPUArray:
        if self.kind == "index":
            return gp.random.randint(0, self.limit, shape, dtype="int32", seed=seed)
        if self.kind == "mask":
            return gp.random.randint(0, 2, shape, dtype="int32", seed=seed).astype("bool")
        if self.dtype.startswith(("int", "uint")):
            return gp.random.randint(0, 100, shape, dtype="int32", seed=seed).astype(self.dtype)
        if self.kind == "uniform":
            return gp.random.uniform(shape, dtype=self.dtype, seed=seed)
        if self.kind == "positive":
            return gp.random.uniform(shape, low=0.1, high=4.0, dtype=self.dtype, seed=seed)
        values = gp.random.normal(shape, dtype=self.dtype, seed=seed)
        if self.kind == "spd":  # well conditioned, symmetric
            size = shape[-1]
            square = gp.matmul(values, gp.swapaxes(values, -1, -2)) / float(size)
            return square + gp.eye(size, dtype=self.dtype)
        return values if self.scale == 1.0 else values * self.scale

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]" + ("" if self.layout == "dense" else f" {self.layout}")


@dataclass(frozen=True)
class Case:
    """One drawn call."""

    inputs: tuple[Input, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([*map(str, self.inputs), *(f"{k}={v}" for k, v in self.options.items())])


class Draw:
    """Sizes, dtypes and layouts of one case. `large`: for a GPU; else small, and dtypes that NumPy has."""

    def __init__(self, rng: random.Random, large: bool) -> None:
        self.rng, self.large = rng, large

    def size(self, low: int, high: int, step: int = 1) -> int:
        """Log-uniform in [low, high], a multiple of step."""
        return max(low, round(math.exp(self.rng.uniform(math.log(low), math.log(high))) / step) * step)

    def choose(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def floats(self) -> str:
        return str(self.choose(*(("bfloat16", "float16", "float32") if self.large else ("float32", "float64"))))

    def layout(self, *choices: str) -> str:
        return str(self.choose(*(choices or LAYOUTS)))

    def elements(self, most: int = 1 << 24) -> int:
        return self.size(1 << 12, most) if self.large else self.size(1 << 4, 1 << 14)

    def matrix(self, most: int = 1 << 24, widest: int = 1 << 20) -> tuple[int, int]:
        """Rows and their width: many short ones, few long ones, and all between; any width."""
        elements = self.elements(most)
        width = self.size(2, min(widest, elements))
        return max(1, elements // width), width

    def shape(self, rank: int, most: int = 1 << 24) -> tuple[int, ...]:
        left = self.elements(most)
        sizes = []
        for axis in range(rank, 1, -1):
            sizes.append(self.size(1, max(1, round(left ** (1.5 / axis)))))
            left = max(1, left // sizes[-1])
        sizes.append(left)
        self.rng.shuffle(sizes)
        return tuple(sizes)


class Layer(NamedTuple):
    """One of the peer's layers (torch_layers.py) and the names of its inputs: of the ways it has, the fastest counts."""

    kind: str
    names: Sequence[str]


@dataclass(frozen=True)
class Family:
    """`ours(arrays, out, **options)`, `torch(torch, tensors, **options)`, `numpy(arrays, **options)` are one operation.

    numpy is the peer on the CPU and, given float64, the reference. `rows`, and `columns` for another axis: of each input
    and of the result, the axis along which results are independent, None where there is none: that many are checked,
    of what `part` leaves, where all would take long. What `ours` gives is handed to its next call as `out`; `pick` takes
    the array to check from it. `check(got, arrays, **options)` gives the error instead, where results are no numbers.
    """

    name: str
    draw: Callable[[Draw], Case]
    ours: Callable[..., Any]
    torch: Callable[..., Any] | Layer
    numpy: Callable[..., Any]
    rows: Axes | None = None
    columns: Axes | None = None
    part: Callable[[list[Any], Any], tuple[list[Any], Any]] = lambda arrays, result: (arrays, result)
    bound: float = 1.0  # times that of the result's dtype
    check: Callable[..., float] | None = None
    pick: Callable[[Any], Any] = lambda found: found
    checked_inputs: Callable[[Sequence[Any]], list[Any]] = list  # what the reference is given instead of the inputs
    done: Callable[[], None] = lambda: None  # after each case
    in_graph: bool = True  # False: the call has no out=, so that a graph cannot hold it

    def error(self, arrays: Sequence[gp.GPUArray], result: gp.GPUArray, options: dict[str, Any]) -> tuple[float, float]:
        """The error of a result, and the largest that is right."""
        taken, got = self.part(self.checked_inputs(arrays), result)
        for axes in (self.rows, self.columns):
            taken, got = (taken, got) if axes is None else _sample(taken, got, *axes)
        wide = [_to_numpy(x) for x in taken]
        found = _to_numpy(got)
        bound = self.bound * BOUNDS.get(str(result.dtype), 0.0)
        if self.check is not None:
            return self.check(found, wide, **options), bound
        return relative_error(found, np.asarray(self.numpy(wide, **options))), bound


def _sample(
    arrays: Sequence[gp.GPUArray], result: gp.GPUArray, axes: tuple[int | None, ...], out_axis: int
) -> tuple[list[gp.GPUArray], gp.GPUArray]:
    """What lies at some places of an axis, the first and the last among them."""
    along = [x for x, axis in zip((*arrays, result), (*axes, out_axis), strict=True) if axis is not None]
    largest = max(x.size for x in along)
    if largest <= MOST_CHECKED:
        return list(arrays), result
    count = result.shape[out_axis]
    wanted = max(2, min(count, MOST_CHECKED * count // largest))
    places = sorted({round(i * (count - 1) / (wanted - 1)) for i in range(wanted)}) if count > 1 else [0]
    index = gp.from_numpy(np.asarray(places, np.int64))

    def pick(x: gp.GPUArray, axis: int | None) -> gp.GPUArray:
        return x if axis is None or x.shape[axis] == 1 else gp.take(x, index, axis=axis)

    return [pick(x, a) for x, a in zip(arrays, axes, strict=True)], pick(result, out_axis)


def _to_numpy(x: gp.GPUArray) -> Any:
    """Floats as float64."""
    if str(x.dtype) in ("bfloat16", "float16"):
        x = x.astype("float32")
    array = x.to_numpy()
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def relative_error(got: Any, wanted: Any) -> float:
    if got.shape != wanted.shape:
        return math.inf
    if wanted.dtype.kind not in "fc":
        return 0.0 if np.array_equal(got, wanted) else math.inf
    whole = float(np.linalg.norm(wanted.reshape(-1)))
    apart = float(np.linalg.norm((got - wanted).reshape(-1)))
    return apart / whole if whole > 0 else apart
