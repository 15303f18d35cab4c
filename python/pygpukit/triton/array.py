"""Arrays of ours as Triton sees tensors."""

from __future__ import annotations

from typing import Any

from pygpukit import _core
from pygpukit._core import GPUArray

__all__ = ["TritonArray", "from_gpuarray", "from_numpy"]

# Triton's names where they are not ours; packed types are bytes to it.
_NAMES = {"float8_e4m3": "float8_e4m3fn", "int4": "uint8", "float4_e2m1": "uint8"}


class TritonArray:
    """A view of a GPUArray with the members Triton asks of a tensor. Strides are in elements."""

    def __init__(self, arr: GPUArray | TritonArray) -> None:
        array = arr.array if isinstance(arr, TritonArray) else arr
        if not isinstance(array, GPUArray):
            raise TypeError(f"TritonArray: arr must be a GPUArray, got {type(arr).__module__}.{type(arr).__qualname__}")
        self.array: GPUArray = array
        self._pinned: Any = None

    def data_ptr(self) -> int:
        """The address of the first element. From here on the memory is resident and stays in place for the life of this
        view, or while no kernel is launched by ``pygpukit.triton.launch``, which holds it for the launch alone."""
        if self._pinned is None:
            self._pinned = _core._PinnedArray(self.array)
        address: int = self._pinned.address
        return address

    @property
    def dtype(self) -> str:
        """The name Triton has for it: float32, bfloat16, int8, ...; packed types are uint8."""
        name = self.array.dtype.name
        return _NAMES.get(name, name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.array.ndim

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self.array.size

    @property
    def device(self) -> Any:
        """Of the array."""
        return self.array.device

    def stride(self, dim: int | None = None) -> Any:
        """Of one axis, negative ones counted from the end, or of all: in elements."""
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        if dim is None:
            return strides
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"TritonArray.stride: dim must be {-self.ndim} to {self.ndim - 1}, got {dim}")
        return strides[dim]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Of the array: version 3, with the stream to wait for."""
        interface: dict[str, Any] = self.array.__cuda_array_interface__
        return interface

    def __repr__(self) -> str:
        return f"TritonArray(shape={self.shape}, dtype={self.dtype}, device={self.device})"


class LaunchArgument(TritonArray):
    """An argument of ``launch``. Triton asks for the address only to see what it is a multiple of; the launch itself
    takes all its arrays at once and finds their addresses then."""

    def data_ptr(self) -> int:
        return _core._address_alignment(self.array)


class HostArgument(TritonArray):
    """An argument of Triton's interpreter, which works in host memory and copies tensors of a GPU there first: this one
    is there already."""

    def untyped_storage(self) -> HostArgument:
        return self

    def cpu(self) -> HostArgument:
        return self

    def copy_(self, other: HostArgument) -> None:
        assert other.array is self.array

    def new_empty(self, *_: Any, **__: Any) -> HostArgument:
        return HostArgument(self.array)

    def set_(self, *_: Any) -> None:
        pass

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.shape


def from_gpuarray(arr: GPUArray) -> TritonArray:
    """The same memory as Triton sees it."""
    return TritonArray(arr)


def from_numpy(arr: Any) -> TritonArray:
    """A copy of a NumPy array on the current device."""
    return TritonArray(_core.from_numpy(arr))
