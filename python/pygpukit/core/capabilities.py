"""What kernels a chip can run."""

from __future__ import annotations

from dataclasses import dataclass

from pygpukit._core.runtime.device import DeviceCapabilities, KernelType

__all__ = ["DeviceCapabilities", "FallbackDeviceCapabilities", "KernelType"]


@dataclass
class FallbackDeviceCapabilities:
    """The plain record of the same facts."""

    device_id: int = 0
    name: str = "CPU Simulation"
    sm_version: int = 0
    compute_capability: int = 0
    tensorcore: bool = False
    tensorcore_fp16: bool = False
    tensorcore_bf16: bool = False
    async_copy: bool = False
