"""Types of arguments, for annotations: what the functions of the package take where more than one type will do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from pygpukit._core import Device, GPUArray, Stream
from pygpukit.core.dtypes import DataType

if TYPE_CHECKING:
    from pygpukit.ops.audio import AudioBuffer

__all__ = [
    "Arrays",
    "AudioLike",
    "AxisLike",
    "DTypeLike",
    "DeviceLike",
    "Elements",
    "Extent",
    "HostArray",
    "HostBuffer",
    "IndicesLike",
    "Ints",
    "Key",
    "Number",
    "NumpyArray",
    "Operand",
    "PadWidth",
    "PathLike",
    "ShapeLike",
    "StreamLike",
]

#: An int, or several.
Ints: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
#: Sizes; an int is one size.
ShapeLike: TypeAlias = Ints
#: Axes; negative ones count from the end.
AxisLike: TypeAlias = Ints
#: A grid or a block of a launch: x, or up to (x, y, z).
Extent: TypeAlias = Ints
#: Borders: one width, (before, after), or such a pair for each axis.
PadWidth: TypeAlias = Ints | Sequence[Ints]

#: A number of Python or NumPy.
Number: TypeAlias = bool | int | float | complex | np.generic
#: What an operation on elements takes.
Operand: TypeAlias = GPUArray | Number
#: A sequence of arrays.
Arrays: TypeAlias = Iterable[GPUArray]
#: Elements to draw from: an array, a sequence of numbers, or an int for all below it.
Elements: TypeAlias = GPUArray | Sequence[Any] | np.ndarray[Any, Any] | SupportsIndex
#: An array of NumPy.
HostArray: TypeAlias = np.ndarray[Any, Any]
#: An array of NumPy, or one of its numbers.
NumpyArray: TypeAlias = HostArray | np.generic
#: Integers or bools that choose elements: on the device, or of the host.
IndicesLike: TypeAlias = GPUArray | HostArray | list[Any] | tuple[Any, ...] | int
#: What stands in the brackets of ``x[key]``.
Key: TypeAlias = IndicesLike | SupportsIndex | slice | EllipsisType | tuple[Any, ...] | None

#: A dtype: one of ours, its name, NumPy's, or a Python type.
DTypeLike: TypeAlias = (
    DataType | str | np.dtype[Any] | type[bool] | type[int] | type[float] | type[complex] | type[np.generic]
)
#: A device, its name, or an array that is there.
DeviceLike: TypeAlias = Device | str | GPUArray
#: A stream, or the handle of one.
StreamLike: TypeAlias = Stream | int

#: Host memory with the buffer protocol.
HostBuffer: TypeAlias = bytes | bytearray | memoryview | HostArray
#: A path of the file system.
PathLike: TypeAlias = str | os.PathLike[str]
#: Samples: float32 ``[n]`` or ``[batch, n]``, or a buffer.
AudioLike: TypeAlias = "GPUArray | AudioBuffer"
