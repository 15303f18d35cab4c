"""Devices: information and capabilities."""

from __future__ import annotations

from dataclasses import dataclass

from pygpukit._core import Device, cuda_unavailable_reason, default_device, devices, is_cuda_available
from pygpukit.core.capabilities import DeviceCapabilities, FallbackDeviceCapabilities, KernelType

__all__ = [
    "Device",
    "DeviceCapabilities",
    "DeviceInfo",
    "FallbackDeviceCapabilities",
    "KernelType",
    "cuda_unavailable_reason",
    "default_device",
    "devices",
    "get_device_capabilities",
    "get_device_info",
    "is_cuda_available",
]


@dataclass(frozen=True)
class DeviceInfo:
    """What a program usually asks of a device."""

    name: str
    total_memory: int
    compute_capability: tuple[int, int] | None
    multiprocessor_count: int
    max_threads_per_block: int
    warp_size: int


def _device(device_id: int) -> Device:
    """Device number ``device_id`` of the kind new arrays go to."""
    return Device(f"{default_device().kind}:{device_id}")


def get_device_info(device_id: int = 0) -> DeviceInfo:
    """Information about a device of the default kind; ``compute_capability`` is None on the CPU."""
    device = _device(device_id)
    properties = device.properties
    capability = (properties.compute_capability_major, properties.compute_capability_minor)
    return DeviceInfo(
        name=properties.name,
        total_memory=properties.total_memory,
        compute_capability=capability if device.kind == "cuda" else None,
        multiprocessor_count=properties.multiprocessor_count,
        max_threads_per_block=properties.max_threads_per_block,
        warp_size=properties.warp_size,
    )


def get_device_capabilities(device_id: int = 0) -> DeviceCapabilities:
    """What kernels a device of the default kind can run; ``sm_version`` is 0 on the CPU."""
    return DeviceCapabilities.of(_device(device_id))
