"""Memory info and copies between addresses and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit._core import (
    copy_device_to_device_async,
    copy_to_device,
    copy_to_device_async,
    get_memory_info,
    synchronize,
)
from pygpukit._startup import old_names

if TYPE_CHECKING:
    from pygpukit.compat import copy_device_to_device_offset as copy_device_to_device_offset
    from pygpukit.compat import copy_to_device_async_raw_stream as copy_to_device_async_raw_stream

__all__ = [
    "copy_device_to_device_async",
    "copy_to_device",
    "copy_to_device_async",
    "get_memory_info",
    "synchronize",
]
__all__ += ["copy_device_to_device_offset", "copy_to_device_async_raw_stream"]
__getattr__ = old_names(__name__, __all__)
