"""Arrays, dtypes, devices, streams, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit._startup import old_names
from pygpukit.core.array import GPUArray
from pygpukit.core.device import (
    Device,
    DeviceInfo,
    default_device,
    devices,
    get_device_capabilities,
    get_device_info,
    is_cuda_available,
)
from pygpukit.core.dtypes import (
    DataType,
    DataTypeKind,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float4_e2m1,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pygpukit.core.factory import asarray, empty, from_dlpack, from_numpy, full, ones, zeros
from pygpukit.core.memory import (
    copy_device_to_device_async,
    copy_to_device,
    copy_to_device_async,
    get_memory_info,
    synchronize,
)
from pygpukit.core.stream import (
    CudaEvent,
    CudaGraph,
    Stream,
    StreamManager,
    StreamPriority,
    current_stream,
    default_stream,
    event_elapsed_ms,
    event_elapsed_us,
)

if TYPE_CHECKING:
    from pygpukit.compat import copy_device_to_device_offset as copy_device_to_device_offset

__all__ = [
    "CudaEvent",
    "CudaGraph",
    "DataType",
    "DataTypeKind",
    "Device",
    "DeviceInfo",
    "GPUArray",
    "Stream",
    "StreamManager",
    "StreamPriority",
    "asarray",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "copy_device_to_device_async",
    "copy_to_device",
    "copy_to_device_async",
    "current_stream",
    "default_device",
    "default_stream",
    "devices",
    "empty",
    "event_elapsed_ms",
    "event_elapsed_us",
    "float4_e2m1",
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "get_device_capabilities",
    "get_device_info",
    "get_memory_info",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_cuda_available",
    "ones",
    "synchronize",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
]
__all__ += ["copy_device_to_device_offset"]
__getattr__ = old_names(__name__, __all__)
