"""Triton's driver over ours: its kernels are loaded and launched by the library, on the current stream and session.

Triton asks an object, its active driver, for the device, the stream, and the way to load and launch what it compiled.
Inside ``launching()`` that object is the one here; outside, Triton's own, so that kernels of PyTorch in the same process
are left alone.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pygpukit import _core
from pygpukit._core import CudaEvent, Device, GPUArray, event_elapsed_ms
from pygpukit.errors import DeviceError, UnsupportedError
from pygpukit.triton.array import HostArgument, LaunchArgument, TritonArray

__all__ = [
    "get_triton",
    "get_triton_device",
    "launch",
    "launching",
    "triton_available",
    "triton_version",
    "use_triton_backend",
]

_NEEDED = "pygpukit.triton needs Triton 3.4 or newer: pip install PyGPUkit[triton]"
_WARP = 32


def triton_available() -> bool:
    """Whether Triton is installed. It is not imported."""
    return importlib.util.find_spec("triton") is not None


def triton_version() -> str:
    """Of the installed Triton. ImportError without one."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return str(get_triton().__version__)


def use_triton_backend() -> bool:
    """What PYGPUKIT_USE_TRITON says, for programs that have both ways; unset: whether kernels could be launched here."""
    chosen: bool | None = _core._use_triton()
    return chosen if chosen is not None else triton_available() and _core.is_cuda_available()


def get_triton() -> Any:
    """The module triton. ImportError that says how to install it."""
    try:
        triton = importlib.import_module("triton")
    except ImportError as error:
        raise ImportError(f"{_NEEDED} ({error})") from error
    # Kernels of earlier ones have other parameters than those that are passed here.
    if _version_of(triton) < (3, 4):
        raise ImportError(f"{_NEEDED} (found {triton.__version__})")
    return triton


def _version_of(triton: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", triton.__version__)[:2])


def get_triton_device() -> Device:
    """The GPU that kernels launched here go to: the session's, else the first. DeviceError without one."""
    if not _core.is_cuda_available():
        raise DeviceError(f"triton: {_core.cuda_unavailable_reason()}")
    device = _core.default_device()
    return device if device.kind == "cuda" else Device("cuda:0")


class _Code:
    """A compiled kernel before its parameters are known."""

    def __init__(self, name: str, code: bytes) -> None:
        self.name = name
        self.code = code
        self._kernels: dict[tuple[str, ...], Any] = {}

    def kernel(self, types: tuple[str, ...]) -> Any:
        if types not in self._kernels:
            self._kernels[types] = _core._BinaryKernel(self.name, self.code, list(types))
        return self._kernels[types]


def _parameters(types: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """(type, value) of what the kernel takes at run time; tuples are passed member by member."""
    for kind, value in zip(types, values, strict=True):
        if isinstance(kind, tuple):
            yield from _parameters(kind, value)
        elif kind != "constexpr":
            yield kind, value


def _flat(types: Sequence[Any]) -> Iterator[str]:
    for kind in types:
        if isinstance(kind, tuple):
            yield from _flat(kind)
        elif kind != "constexpr":
            yield kind


class Launcher:
    """What Triton calls to launch one compiled kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.signature = tuple(src.signature.values())
        name = getattr(metadata, "name", "kernel")
        for kind in _flat(self.signature):
            if kind.startswith("tensordesc") or kind == "nvTmaDesc":
                raise UnsupportedError(f"{name}: descriptors as arguments; make them in the kernel, or pass the array")
        if getattr(metadata, "num_ctas", 1) != 1:
            raise UnsupportedError(f"{name}: num_ctas must be 1, got {metadata.num_ctas}")
        if getattr(metadata, "launch_cooperative_grid", False):
            raise UnsupportedError(f"{name}: cooperative grids are not launched from here")
        self.threads = metadata.num_warps * _WARP
        self.shared_bytes = metadata.shared
        # Two addresses follow the parameters: scratch memory of the kernel and of a profiler.
        self.scratch = (getattr(metadata, "global_scratch_size", 0), getattr(metadata, "profile_scratch_size", 0))

    def __call__(
        self, x: int, y: int, z: int, stream: Any, function: _Code, kernel_metadata: Any, launch_metadata: Any,
        enter_hook: Callable[..., Any] | None, exit_hook: Callable[..., Any] | None, *values: Any,
    ) -> None:  # fmt: skip
        if x * y * z == 0:
            return
        types: list[str] = []
        arguments: list[Any] = []
        device: Device | None = None
        for kind, value in _parameters(self.signature, values):
            types.append(kind)
            if isinstance(value, TritonArray):
                value = value.array
                device = device or value.device
            elif hasattr(value, "data_ptr"):
                raise TypeError(
                    f"{function.name}: argument {len(types)} is a {type(value).__module__}.{type(value).__qualname__}; "
                    "pass from_gpuarray(gp.from_dlpack(x))"
                )
            arguments.append(value)
        if device is None:
            device = get_triton_device()
        for size in self.scratch:
            types.append("*u8")
            arguments.append(_core.empty((x * y * z * size,), dtype="uint8", device=device) if size else None)
        if enter_hook is not None:
            enter_hook(launch_metadata)
        function.kernel(tuple(types)).launch(device, tuple(arguments), (x, y, z), self.threads, self.shared_bytes)
        if exit_hook is not None:
            exit_hook(launch_metadata)


class _Utilities:
    """Loading, and what a device has."""

    def load_binary(self, name: str, code: bytes, shared: int, device: Device) -> tuple[Any, _Code, int, int, int]:
        found = _core._BinaryKernel(name, code, []).attributes(device)
        made = _Code(name, code)
        return made, made, found["registers"], found["local_bytes"] // 4, found["max_threads"]

    def unload_module(self, module: Any) -> None:
        """Loaded code stays: graphs and work in flight may have it."""

    def get_device_properties(self, device: Device) -> dict[str, int]:
        found = device.properties
        return {
            "max_shared_mem": found.shared_memory_per_block_optin,
            "max_num_regs": found.registers_per_block,
            "multiprocessor_count": found.multiprocessor_count,
            "warpSize": found.warp_size,
            "sm_clock_rate": found.clock_khz,
            "mem_clock_rate": found.memory_clock_khz,
            "mem_bus_width": found.memory_bus_bits,
        }

    def get_device_capability(self, device: Device) -> tuple[int, int]:
        found = device.properties
        return found.compute_capability_major, found.compute_capability_minor


class _Event:
    """An event under the names triton.testing uses."""

    def __init__(self, enable_timing: bool = True) -> None:
        self._event = CudaEvent()

    def record(self) -> None:
        self._event.record()

    def synchronize(self) -> None:
        self._event.synchronize()

    def elapsed_time(self, stop: _Event) -> float:
        return event_elapsed_ms(self._event, stop._event)


class _DeviceInterface:
    """Of a device what triton.testing uses."""

    Event = _Event

    def current_device(self) -> Device:
        return get_triton_device()

    def synchronize(self) -> None:
        get_triton_device().synchronize()


class Driver:
    """Triton's driver interface. A device is a ``gp.Device`` to it, so that kernels which Triton keeps by device are
    apart from those it made through its own driver."""

    launcher_cls = Launcher
    utils = _Utilities()

    @staticmethod
    def is_active() -> bool:
        return _core.is_cuda_available()

    def get_current_device(self) -> Device:
        return get_triton_device()

    def set_current_device(self, device: Any) -> None:
        """The session chooses: ``with gp.device(...)``."""
        raise UnsupportedError("triton: choose the device with `with gp.device('cuda:N'):`")

    def get_current_stream(self, device: Any = None) -> int:
        """The handle of the stream work goes to here."""
        return _core.current_stream(device).handle

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self.utils.get_device_capability(device or get_triton_device())

    def get_current_target(self) -> Any:
        major, minor = self.get_device_capability()
        return importlib.import_module("triton.backends.compiler").GPUTarget("cuda", 10 * major + minor, _WARP)

    def get_device_interface(self) -> _DeviceInterface:
        return _DeviceInterface()

    def get_active_torch_device(self) -> Any:
        raise UnsupportedError("triton: this driver has no PyTorch device; the current one is get_current_device()")

    def map_python_to_cpp_type(self, ty: str) -> str:
        nvidia = importlib.import_module("triton.backends.nvidia.driver")
        return str(nvidia.ty_to_cpp(ty))

    def get_benchmarker(self) -> Callable[..., Any]:
        """For triton.autotune."""
        benchmark: Callable[..., Any] = importlib.import_module("triton.testing").do_bench
        return benchmark

    def get_empty_cache_for_benchmark(self) -> GPUArray:
        return _core.empty((256 << 20,), dtype="uint8", device=get_triton_device())

    def clear_cache(self, cache: GPUArray) -> None:
        cache[:] = 0

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args


_inside: ContextVar[bool] = ContextVar("pygpukit_triton", default=False)


class _Switch:
    """The active driver: ours inside of ``launching()``, elsewhere the one from before or Triton's default."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._before = getattr(config, "_active", None)
        self._ours = Driver()

    def __getattr__(self, name: str) -> Any:
        if _inside.get():
            return getattr(self._ours, name)
        return getattr(self._before if self._before is not None else self._config.default, name)


@contextmanager
def launching() -> Iterator[Driver]:
    """Kernels called in the block with TritonArrays, as Triton's own are, are compiled for the GPU of the session here and
    go to its current stream."""
    config = get_triton().runtime.driver
    if not isinstance(getattr(config, "_active", None), _Switch):
        config.set_active(_Switch(config))
    token = _inside.set(True)
    try:
        yield config.active._ours
    finally:
        _inside.reset(token)


def _arrays(values: Sequence[Any]) -> Iterator[GPUArray]:
    for value in values:
        if isinstance(value, GPUArray):
            yield value
        elif isinstance(value, TritonArray):
            yield value.array


def _wrapped(value: Any, kind: type[TritonArray]) -> Any:
    return kind(value) if isinstance(value, GPUArray | TritonArray) else value


@functools.cache
def _mend_interpreter() -> None:
    """That of Triton 3.6 makes an integer of an array of one element, which NumPy refuses from 2.4 on."""
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    patch = getattr(interpreter, "_patch_lang_tensor", None)
    if patch is None:
        return

    def patch_tensor(tensor: Any, *rest: Any) -> None:
        patch(tensor, *rest)  # undoes what it set, __index__ too, after the call
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patch_tensor


def launch(kernel: Any, grid: Any, /, *args: Any, **options: Any) -> None:
    """Launches a ``@triton.jit`` kernel on the device of its arrays and the current stream.

    ``args`` and keywords are the kernel's arguments, GPUArrays among them, and Triton's own (``num_warps``, ...). Where
    Triton interprets (``TRITON_INTERPRET=1``), the arrays must be of the CPU, and the call waits for them.
    """
    get_triton()
    name = getattr(kernel, "__name__", "kernel")
    first = next(_arrays([*args, *options.values()]), None)
    device = get_triton_device() if first is None else first.device
    kind: type[TritonArray] = LaunchArgument
    if type(kernel).__name__ == "InterpretedFunction":
        kind = HostArgument
        if device.kind != "cpu":
            raise DeviceError(
                f"{name}: Triton interprets here (TRITON_INTERPRET), and its interpreter needs CPU arrays"
            )
        device.synchronize()
    elif device.kind != "cuda":
        raise DeviceError(
            f"{name}: a Triton kernel runs on a GPU, not on {device}; with TRITON_INTERPRET=1 set before the kernel is "
            "defined Triton interprets it on CPU arrays"
        )
    call = kernel[grid]
    values = [_wrapped(value, kind) for value in args]
    named = {key: _wrapped(value, kind) for key, value in options.items()}
    if kind is HostArgument:
        _mend_interpreter()
        call(*values, **named)
        return
    with device, launching():
        call(*values, **named)
