"""Raw memory and streams by address: the backend interface of the 0.2 series over the library's own devices.

``set_backend`` also chooses the device new arrays go to, unless an argument or ``with gp.device(...)`` says otherwise.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pygpukit import _core
from pygpukit._core import Device, Stream, StreamPriority
from pygpukit.errors import ArgumentError

__all__ = [
    "Backend",
    "CPUSimulationBackend",
    "DeviceProperties",
    "NativeBackend",
    "get_backend",
    "get_native_module",
    "get_rust_module",
    "has_native_module",
    "has_rust_module",
    "reset_backend",
    "set_backend",
]


@dataclass
class DeviceProperties:
    """What a backend says about a device."""

    name: str
    total_memory: int
    compute_capability: tuple[int, int] | None = None
    multiprocessor_count: int = 0
    max_threads_per_block: int = 1024
    warp_size: int = 32


class Backend(ABC):
    """Memory by address and streams by handle."""

    @abstractmethod
    def is_available(self) -> bool: ...

    @abstractmethod
    def get_device_count(self) -> int: ...

    @abstractmethod
    def get_device_properties(self, device_id: int = 0) -> DeviceProperties: ...

    @abstractmethod
    def allocate(self, size_bytes: int) -> int: ...

    @abstractmethod
    def free(self, ptr: int) -> None: ...

    @abstractmethod
    def copy_host_to_device(self, host_data: Any, device_ptr: int) -> None: ...

    @abstractmethod
    def copy_device_to_host(self, device_ptr: int, size_bytes: int, dtype: Any) -> Any: ...

    @abstractmethod
    def memset(self, device_ptr: int, value: int, size_bytes: int) -> None: ...

    @abstractmethod
    def synchronize(self) -> None: ...

    @abstractmethod
    def create_stream(self, priority: int = 0) -> Any: ...

    @abstractmethod
    def destroy_stream(self, stream: Any) -> None: ...

    @abstractmethod
    def stream_synchronize(self, stream: Any) -> None: ...


class _DeviceBackend(Backend):
    """Everything both backends share: the work is the library's."""

    _kind = "cpu"

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}

    def _device(self, device_id: int = 0) -> Device:
        return Device(f"{self._kind}:{device_id}")

    def get_device_count(self) -> int:
        return sum(device.kind == self._kind for device in _core.devices())

    def get_device_properties(self, device_id: int = 0) -> DeviceProperties:
        found = self._device(device_id).properties
        capability = (found.compute_capability_major, found.compute_capability_minor)
        return DeviceProperties(
            name=found.name,
            total_memory=found.total_memory,
            compute_capability=capability if self._kind == "cuda" else None,
            multiprocessor_count=found.multiprocessor_count,
            max_threads_per_block=found.max_threads_per_block,
            warp_size=found.warp_size,
        )

    def allocate(self, size_bytes: int) -> int:
        """The address of a zeroed block."""
        return _core._raw_allocate(self._device(), size_bytes)

    def free(self, ptr: int) -> None:
        """RuntimeError ``Invalid device pointer`` for an address allocate() did not give."""
        _core._raw_free(ptr)

    def copy_host_to_device(self, host_data: Any, device_ptr: int) -> None:
        import numpy as np

        _core._raw_copy_in(device_ptr, np.ascontiguousarray(host_data))

    def copy_device_to_host(self, device_ptr: int, size_bytes: int, dtype: Any) -> Any:
        """A 1-D NumPy array of ``dtype`` (NumPy dtype, DataType or name)."""
        import numpy as np

        item_type = np.dtype(_core._numpy_dtype(dtype))
        if size_bytes % item_type.itemsize:
            raise ArgumentError(
                f"copy_device_to_host: size_bytes must be a multiple of {item_type.itemsize}, got {size_bytes}"
            )
        host = np.empty(size_bytes // item_type.itemsize, item_type)
        _core._raw_copy_out(device_ptr, host)
        return host

    def memset(self, device_ptr: int, value: int, size_bytes: int) -> None:
        _core._raw_memset(device_ptr, value, size_bytes)

    def synchronize(self) -> None:
        self._device().synchronize()

    def create_stream(self, priority: int = 0) -> int:
        """The handle of a new stream; a negative priority is more urgent."""
        level = StreamPriority.HIGH if priority < 0 else StreamPriority.LOW
        stream = Stream(priority=level, device=self._device())
        self._streams[stream.handle] = stream
        return stream.handle

    def destroy_stream(self, stream: Any) -> None:
        found = self._streams.pop(_handle(stream), None)
        if found is not None:
            found.close()

    def stream_synchronize(self, stream: Any) -> None:
        Stream(_handle(stream)).synchronize()


def _handle(stream: Any) -> int:
    return stream.handle if isinstance(stream, Stream) else int(stream)


class CPUSimulationBackend(_DeviceBackend):
    """The CPU: always available."""

    _kind = "cpu"

    def is_available(self) -> bool:
        return True


class NativeBackend(_DeviceBackend):
    """The CUDA devices."""

    _kind = "cuda"

    def is_available(self) -> bool:
        return _core.is_cuda_available()


_backend: Backend | None = None


def get_backend() -> Backend:
    """The backend in force: what set_backend chose, else the one of the default device."""
    global _backend
    if _backend is None:
        _backend = NativeBackend() if _core.default_device().kind == "cuda" else CPUSimulationBackend()
    return _backend


def set_backend(backend: Backend) -> None:
    """Replaces the backend. One of the library's own also chooses where new arrays go."""
    global _backend
    _backend = backend
    _core._set_backend_device(backend._kind if isinstance(backend, _DeviceBackend) else None)


def reset_backend() -> None:
    """Forgets what set_backend chose."""
    global _backend
    _backend = None
    _core._set_backend_device(None)


def has_native_module() -> bool:
    """True: the extension module is part of every install."""
    return True


def get_native_module() -> Any:
    """The extension module."""
    return _core


def has_rust_module() -> bool:
    """True when the low-level runtime classes (``pygpukit.runtime``) are part of this version."""
    return importlib.util.find_spec("pygpukit.runtime") is not None


def get_rust_module() -> Any:
    """The module of the low-level runtime classes, or None."""
    return importlib.import_module("pygpukit.runtime") if has_rust_module() else None
