"""Memory info and copies between addresses and arrays."""

from __future__ import annotations

from pygpukit._core import (
    GPUArray,
    copy_device_to_device_async,
    copy_device_to_device_offset,
    copy_to_device,
    copy_to_device_async,
    get_memory_info,
    synchronize,
)

__all__ = [
    "copy_device_to_device_async",
    "copy_device_to_device_offset",
    "copy_to_device",
    "copy_to_device_async",
    "copy_to_device_async_raw_stream",
    "get_memory_info",
    "synchronize",
]


def copy_to_device_async_raw_stream(dst: GPUArray, src_ptr: int, size_bytes: int, stream_handle: int) -> None:
    """:func:`copy_to_device_async` on the stream with that ``Stream.handle``."""
    copy_to_device_async(dst, src_ptr, size_bytes, stream_handle)
