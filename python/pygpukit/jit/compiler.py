"""``jit`` and what surrounds it: warming the compiler up, and what a machine needs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from pygpukit._core import (
    JITKernel,
    _warm_up_compiler,
    check_driver_compatibility,
    get_nvrtc_path,
    get_nvrtc_version,
    is_nvrtc_available,
)
from pygpukit.errors import Error, NvrtcError, NvrtcErrorCode

__all__ = [
    "MIN_DRIVER_VERSION",
    "MIN_SM_VERSION",
    "JITKernel",
    "NvrtcError",
    "NvrtcErrorCode",
    "check_driver_compatibility",
    "get_driver_requirements",
    "get_nvrtc_path",
    "get_nvrtc_version",
    "get_warmup_error",
    "is_nvrtc_available",
    "is_warmup_done",
    "jit",
    "warmup",
]

MIN_DRIVER_VERSION = 12000
"""The oldest driver served, as the CUDA version it supports: 12.0."""

MIN_SM_VERSION = 80
"""The oldest chip served: Ampere."""


def jit(source: str, func: str, options: Sequence[str] | None = None, block_size: int = 256) -> JITKernel:
    """A kernel from CUDA source.

    ``func`` names a ``__global__`` function of ``source``; an instance of a template is ``"scale<float>"``. ``options`` go
    to the compiler, those of nvcc that it lacks (``-O3``, ``-Xptxas -O1,-v``) translated or passed over with a line in the
    log; without ``-arch=...`` it compiles for the exact chip. ``block_size`` is used by calls that name none.

    The kernel is compiled here where a GPU and NVRTC are present. Elsewhere the name is checked and calling the kernel
    raises :class:`DeviceError` with the cause. Raises ``ValueError`` for a name that is not in the source, and
    :class:`NvrtcError` with the compiler's log, in the lines of ``source``.

    Calling the kernel launches it on the current stream: ``kernel(x, factor=0.5, n=x.size)``. Arrays must be contiguous
    and have the dtype of the pointer; numbers are converted to the declared type and must fit it.
    """
    return JITKernel(source, func, options, block_size)


class _Warmup:
    """One attempt per process, in the caller's thread or in the background."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.done = False
        self.error: Exception | None = None

    def run(self, callback: Callable[[], object] | None) -> None:
        try:
            _warm_up_compiler()
            self.error = None
            self.done = True
        except Error as error:
            self.error = error
            return
        _call(callback)

    def start(self, callback: Callable[[], object] | None) -> threading.Thread:
        """The running attempt, or a new one."""
        with self.lock:
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.run, args=(callback,), name="pygpukit-warmup", daemon=True)
                self.thread.start()
            return self.thread


_state = _Warmup()


def _call(callback: Callable[[], object] | None) -> None:
    if callback is not None:
        with contextlib.suppress(Exception):
            callback()


def warmup(background: bool = False, callback: Callable[[], object] | None = None) -> bool:
    """Loads the compiler and builds a trivial kernel, so that the first real one does not wait for that.

    With ``background`` a daemon thread does it and the result is True at once; otherwise the result says whether it
    worked, after joining an attempt that is under way. ``callback`` is called on success; what it raises is ignored.
    """
    if _state.done:
        _call(callback)
        return True
    thread = _state.start(callback)
    if background:
        return True
    thread.join()
    return _state.done


def is_warmup_done() -> bool:
    """Whether a warm-up has succeeded in this process."""
    return _state.done


def get_warmup_error() -> Exception | None:
    """What the last warm-up raised, or None."""
    return _state.error


def get_driver_requirements() -> dict[str, str]:
    """What a machine needs, in words."""
    return {
        "min_driver_version": "525 (CUDA 12.0)",
        "min_gpu_architecture": "SM 80 (Ampere)",
        "recommended_driver_version": "570 or later (CUDA 12.8)",
        "recommended_gpu": "Hopper (SM 90)",
        "supported_architectures": "SM 80, 86, 89, 90, 100, 103, 120, 121",
        "notes": (
            "Built-in operations need the driver alone. Custom kernels also need NVRTC: "
            "pip install nvidia-cuda-nvrtc-cu12. Blackwell (SM 100 and 120) needs driver 570; NVRTC of CUDA 13 needs 580."
        ),
    }
