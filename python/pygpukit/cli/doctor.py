"""``pygpukit doctor``: what works here, and what to do about the rest."""

from __future__ import annotations

import os
from typing import Any

from pygpukit import _core
from pygpukit.cli import facts
from pygpukit.cli.info import show_devices, show_libraries
from pygpukit.cli.text import bold, green, human_bytes, red, wrapped, yellow

__all__ = ["doctor", "problems"]


def problems(found: dict[str, Any]) -> list[tuple[bool, str, str]]:
    """(serious, what is wrong, one fix) for each fault. Serious ones make the command fail."""
    result: list[tuple[bool, str, str]] = []
    wants_cuda = os.environ.get("PYGPUKIT_DEVICE", "").startswith(("cuda", "gpu"))
    if found["mode"] == "cpu":
        result.append((wants_cuda, found["reason"], _driver_fix(found["reason"])))
    elif found["mode"] == "driver-only":
        nvrtc = next(library for library in found["libraries"] if library["name"] == "NVRTC")
        result.append((False, nvrtc["reason"] or "NVRTC does not serve this GPU", "pip install nvidia-cuda-nvrtc-cu12"))
        if found["bundle"]["path"] is None:
            text = f"no kernels for the GPU: {found['bundle']['reason']}"
            result.append((True, text, "pip install nvidia-cuda-nvrtc-cu12, or install a wheel with its kernel bundle"))
    for device in found["devices"]:
        if "error" in device:
            result.append((wants_cuda, device["error"], "choose another with PYGPUKIT_DEVICE or CUDA_VISIBLE_DEVICES"))
    if found["default_device"].startswith("none"):
        result.append((True, found["default_device"], "unset PYGPUKIT_DEVICE or set it to cpu, cuda or cuda:N"))
    cache = found["cache"]
    if not cache["enabled"] and os.environ.get("PYGPUKIT_CACHE") != "off":
        result.append((False, f"kernel cache off: {cache['reason']}", "set PYGPUKIT_CACHE_DIR to a folder of your own"))
    if found["numpy"] is None:
        result.append((True, "NumPy is not installed", "pip install numpy"))
    return result


def _driver_fix(reason: str) -> str:
    if reason.startswith("CUDA driver not detected"):
        return "install NVIDIA's display driver 525 or newer (nothing else is needed), or use the CPU as it is"
    if reason.startswith("No GPU devices found"):
        return "check nvidia-smi and CUDA_VISIBLE_DEVICES; in a container pass --gpus all"
    if reason.startswith("PyGPUkit requires SM"):
        return "use a GPU of the Ampere generation or newer, or the CPU as it is"
    return "set PYGPUKIT_DEVICE=cpu to use the CPU without this message"


def not_bundled(found: dict[str, Any]) -> list[str]:
    """What the bundle lacks for the GPUs here; where there is none, for the chips it was made for."""
    if found["bundle"]["path"] is None:
        return []
    here = {int(device["sm"]) for device in found["devices"] if "sm" in device}
    made_for = {int(arch[3:]) for arch in found["bundle"]["archs"] if arch[:3] == "sm_" and arch[3:].isdigit()}
    lines: list[str] = []
    for sm in sorted(here or made_for):
        missing = _core._not_bundled(sm)
        if not missing:
            lines.append(f"sm_{sm}: every kernel is in the bundle")
            continue
        count = sum(len(names) for names in missing.values())
        lines.append(f"sm_{sm}: {count} kernels are not in the bundle; NVRTC compiles them at their first use:")
        lines += [f"  {source}: {len(names)}" for source, names in sorted(missing.items())]
    return lines


def sharing() -> list[str]:
    """MIG instances and an MPS server, or what was looked for."""
    lines = []
    for device in _core.devices():
        if device.kind == "cuda":
            found = _core.runtime.PartitionManager(device=device).visibility()
            lines += [f"{device}: {line}" for line in found if line.startswith("MIG")]
    if not lines:
        lines = ["MIG: no instance among the devices, by their names, uuids and CUDA_VISIBLE_DEVICES"]
    settings = {name: value for name, value in os.environ.items() if name.startswith("CUDA_MPS_")}
    control = os.path.join(settings.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps", "control")
    lines.append(f"MPS: {'a server' if os.path.exists(control) else 'no server'}, looked for {control}")
    return lines + [f"{name}={value}" for name, value in sorted(settings.items())]


def doctor() -> int:
    """0 when the mode that was asked for works."""
    found = facts.collect()
    faults = problems(found)
    print(bold(f"PyGPUkit {found['version']}") + f" on Python {found['python']}, {found['platform']}")
    print(wrapped(f"mode: {found['mode_text']}", 0))
    print(bold("Libraries"))
    show_libraries(found["libraries"])
    print(bold("Devices"))
    show_devices(found["devices"])
    for device in found["devices"]:
        if "sm" in device:
            shared = human_bytes(device["shared_memory_per_block"])
            threads = f"{device['max_threads_per_block']} threads and {shared} shared memory per block"
            paged = f"virtual memory {'yes' if device['virtual_memory'] else 'no'}"
            print(wrapped(f"{device['device']}: {threads}, L2 {human_bytes(device['l2_cache'])}, {paged}"))
    print(bold("Sharing"))
    for line in sharing():
        print(wrapped(line))
    print(bold("Kernels"))
    cache, bundle = found["cache"], found["bundle"]
    print(wrapped(f"cache: {'on' if cache['enabled'] else 'off'}, {cache['folder']}, {cache['entries']} entries, "
                  f"{human_bytes(cache['bytes'])} of {human_bytes(cache['max_bytes'])}"))  # fmt: skip
    print(wrapped(f"bundle: {bundle['path'] or bundle['reason']}"))
    for line in not_bundled(found):
        print(wrapped(line, 4 if line.startswith(" ") else 2))
    listed = {library["reason"] for library in found["libraries"]}
    for serious, text, fix in faults:
        # What was looked for stands under Libraries already.
        short = text.partition(":")[0] if text in listed else text
        print(wrapped(f"{red('problem') if serious else yellow('note')}: {short}", 0))
        print(wrapped(f"fix: {fix}"))
    if not faults:
        print(green("all good"))
    return 1 if any(serious for serious, _, _ in faults) else 0
