"""What the machine and the library are: collected once, shown by ``info`` and ``doctor``."""

from __future__ import annotations

import platform
import sys
from typing import Any

from pygpukit import _core
from pygpukit.errors import Error

__all__ = ["collect", "mode"]


def mode() -> tuple[str, str]:
    """(short name, explanation) of the run mode."""
    if not _core.is_cuda_available():
        return "cpu", "CPU: everything but custom CUDA kernels runs on the processor"
    if _core.is_nvrtc_available():
        return "full-jit", "full JIT: built-in operations and custom CUDA kernels run on the GPU"
    return "driver-only", "driver only: built-in operations run on the GPU, custom kernels need NVRTC"


def _device(device: _core.Device) -> dict[str, Any]:
    try:
        p = device.properties
        free, total = device.memory_info()
    except Error as error:
        return {"device": str(device), "error": str(error)}
    facts: dict[str, Any] = {
        "device": str(device),
        "name": p.name,
        "total_memory": total,
        "free_memory": free,
        "multiprocessors": p.multiprocessor_count,
    }
    if device.kind == "cuda":
        facts |= {
            "sm": p.compute_capability_major * 10 + p.compute_capability_minor,
            "uuid": p.uuid,
            "pci_bus": p.pci_bus,
            "max_threads_per_block": p.max_threads_per_block,
            "shared_memory_per_block": p.shared_memory_per_block_optin,
            "l2_cache": p.l2_cache_size,
            "virtual_memory": p.virtual_memory,
        }
    return facts


def _environment() -> list[dict[str, Any]]:
    return [{"name": v["name"], "value": v["value"], "valid": v["valid"]} for v in _core._environment()]


def _kernels() -> dict[str, int]:
    """Number of built-in kernel modules by where their code came from in this process."""
    counts: dict[str, int] = {}
    for module in _core._kernel_modules():
        counts[module["origin"]] = counts.get(module["origin"], 0) + 1
    return counts


def collect() -> dict[str, Any]:
    """Everything; opens the devices."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        numpy_version: str | None = version("numpy")
    except PackageNotFoundError:
        numpy_version = None
    name, text = mode()
    return {
        "version": _core._version(),
        "python": platform.python_version(),
        "numpy": numpy_version,
        "platform": platform.platform(),
        "executable": sys.executable,
        "mode": name,
        "mode_text": text,
        "reason": _core.cuda_unavailable_reason(),
        "default_device": _default_device(),
        "devices": [_device(device) for device in _core.devices()],
        "libraries": list(_core._libraries()),
        "cache": dict(_core._cache_info()),
        "bundle": dict(_core._bundle_info()),
        "kernel_modules": _kernels(),
        "threads": _core.num_threads(),
        "environment": _environment(),
    }


def _default_device() -> str:
    try:
        return str(_core._configured_device())
    except Error as error:
        return f"none: {error}"
