"""Other libraries at the same work, on the same memory."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit.benchmark import torch_layers
from pygpukit.benchmark.report import NotRun
from pygpukit.benchmark.timing import IN_A_ROW, Call, HostTimer, Timer, enough_calls

__all__ = ["Peer", "find_peers", "torch_us"]


class Peer(ABC):
    """A library that multiplies matrices. Its arrays are views of ours, by DLPack."""

    name: str
    version: str

    @abstractmethod
    def product(self, dtype: str, a: gp.GPUArray, b: gp.GPUArray, out: gp.GPUArray) -> Call | None:
        """A call that writes a @ b into out; None when the library has no such product."""

    def fp8_product(
        self, a: gp.GPUArray, b: gp.GPUArray, scale_a: gp.GPUArray, scale_b: gp.GPUArray, out: gp.GPUArray
    ) -> Call | None:
        """A call for float8 a [M, K] and b [N, K] with float32 scales [M, 1] and [N, 1], or None."""
        return None

    def layer_calls(
        self, kind: str, inputs: Mapping[str, gp.GPUArray], options: Mapping[str, Any]
    ) -> Mapping[str, Callable[[], Any]]:
        """Calls of another operation that give their result, by the name of the way they take; it may have none."""
        return {}

    @abstractmethod
    def timer(self, calls: Sequence[Call]) -> Timer:
        """Times calls of this library by its own clock."""

    def row_timer(self, calls: Sequence[Call]) -> Timer:
        """Times them as they are called, in no graph."""
        return self.timer(calls)

    @abstractmethod
    def synchronize(self) -> None:
        """Waits for the library's work."""

    def near_fastest(self, ways: Mapping[str, Sequence[Call]], within: float = 1.5) -> list[str]:
        """Of several ways to do the same those that may be the fastest, by a few passes; first the one that was."""
        us: dict[str, float] = {}
        for way, calls in ways.items():
            with contextlib.suppress(RuntimeError, TypeError, ValueError):  # a way may not take these inputs
                timer = self.timer(calls)
                us[way] = min(timer.pass_us(1) for _ in range(3)) / len(timer.calls)
        return sorted((way for way in us if us[way] <= within * min(us.values())), key=lambda way: us[way])


class _TorchGraphTimer(Timer):
    clock = "GPU time of a graph of calls"

    def __init__(self, torch: Any, calls: Sequence[Call]) -> None:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):  # cuBLAS makes its workspace before the capture
            super().__init__(enough_calls(calls, side.synchronize))
            self._torch = torch
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=side):
                self.run_calls()

    def pass_us(self, passes: int) -> float:
        self._graph.replay()  # keeps the device busy while the rest is submitted
        return torch_us(self._torch, self._graph.replay, passes)


class _TorchRowTimer(Timer):
    clock = IN_A_ROW

    def __init__(self, torch: Any, calls: Sequence[Call]) -> None:
        super().__init__(calls)
        self._torch = torch

    def pass_us(self, passes: int) -> float:
        return torch_us(self._torch, self.run_calls, passes)


def torch_us(torch: Any, call: Call, count: int) -> float:
    """Microseconds of one of `count` calls in a row, between events."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) * 1e3 / count


class _Torch(Peer):
    name = "torch"

    def __init__(self, torch: Any, on_gpu: bool) -> None:
        self._torch = torch
        self._on_gpu = on_gpu
        self.version = str(torch.__version__)

    def product(self, dtype: str, a: gp.GPUArray, b: gp.GPUArray, out: gp.GPUArray) -> Call | None:
        if dtype == "tf32" and not self._on_gpu:
            return None
        torch = self._torch
        x, y, z = (torch.from_dlpack(array) for array in (a, b, out))
        precision = "high" if dtype == "tf32" else "highest"

        def multiply() -> None:
            before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision(precision)
            try:
                torch.mm(x, y, out=z)
            finally:
                torch.set_float32_matmul_precision(before)

        return multiply

    def fp8_product(
        self, a: gp.GPUArray, b: gp.GPUArray, scale_a: gp.GPUArray, scale_b: gp.GPUArray, out: gp.GPUArray
    ) -> Call | None:
        torch = self._torch
        if not self._on_gpu or not hasattr(torch, "_scaled_mm"):
            return None
        x, y = (torch.from_dlpack(gp.bitcast(array, "uint8")).view(torch.float8_e4m3fn) for array in (a, b))
        s, t, z = (torch.from_dlpack(array) for array in (scale_a, scale_b, out))

        def multiply() -> None:
            torch._scaled_mm(x, y.t(), s, t.t(), out_dtype=z.dtype, use_fast_accum=False, out=z)

        return multiply

    def layer_calls(
        self, kind: str, inputs: Mapping[str, gp.GPUArray], options: Mapping[str, Any]
    ) -> Mapping[str, Callable[[], Any]]:
        return torch_layers.layer_calls(self._torch, kind, inputs, options)

    def timer(self, calls: Sequence[Call]) -> Timer:
        if not self._on_gpu:
            return HostTimer(calls, self.synchronize)
        try:
            return _TorchGraphTimer(self._torch, calls)
        except RuntimeError:  # some of its factorisations wait for the device, which no capture allows
            self.synchronize()
            return self.row_timer(calls)

    def row_timer(self, calls: Sequence[Call]) -> Timer:
        return _TorchRowTimer(self._torch, calls) if self._on_gpu else HostTimer(calls, self.synchronize)

    def synchronize(self) -> None:
        if self._on_gpu:
            self._torch.cuda.synchronize()


class _CupyTimer(Timer):
    clock = IN_A_ROW  # CuPy allows no cuBLAS call in a capture

    def __init__(self, cupy: Any, calls: Sequence[Call]) -> None:
        super().__init__(calls)
        self._cuda = cupy.cuda
        self.run_calls()

    def pass_us(self, passes: int) -> float:
        start, stop = self._cuda.Event(), self._cuda.Event()
        self.calls[0]()
        start.record()
        for _ in range(passes):
            self.run_calls()
        stop.record()
        stop.synchronize()
        return float(self._cuda.get_elapsed_time(start, stop)) * 1e3 / passes


class _Cupy(Peer):
    name = "cupy"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.version = str(cupy.__version__)

    def product(self, dtype: str, a: gp.GPUArray, b: gp.GPUArray, out: gp.GPUArray) -> Call | None:
        if dtype not in ("fp32", "fp16"):
            return None
        x, y, z = (self._cupy.from_dlpack(array) for array in (a, b, out))
        return lambda: self._cupy.matmul(x, y, out=z)

    def timer(self, calls: Sequence[Call]) -> Timer:
        return _CupyTimer(self._cupy, calls)

    def synchronize(self) -> None:
        self._cupy.cuda.Device().synchronize()


class _Numpy(Peer):
    name = "numpy"
    version = np.__version__

    def product(self, dtype: str, a: gp.GPUArray, b: gp.GPUArray, out: gp.GPUArray) -> Call | None:
        if dtype != "fp32":
            return None
        x, y = np.from_dlpack(a), np.from_dlpack(b)
        # DLPack arrays may be read-only in NumPy.
        z = np.ctypeslib.as_array(ctypes.cast(out.device_ptr, ctypes.POINTER(ctypes.c_float)), out.shape)
        return lambda: np.matmul(x, y, out=z)

    def timer(self, calls: Sequence[Call]) -> Timer:
        return HostTimer(calls, self.synchronize)

    def synchronize(self) -> None:
        pass


def _open(name: str, on_gpu: bool) -> Peer:
    """Raises ImportError with the reason."""
    module = importlib.import_module(name)
    if name == "torch":
        if on_gpu and not module.cuda.is_available():
            raise ImportError("this build of PyTorch sees no GPU")
        return _Torch(module, on_gpu)
    if module.cuda.runtime.getDeviceCount() == 0:
        raise ImportError("CuPy sees no GPU")
    return _Cupy(module)


def find_peers() -> tuple[list[Peer], list[NotRun]]:
    """The libraries installed here that work on the default device, and why the others do not."""
    on_gpu = gp.default_device().kind == "cuda"
    found: list[Peer] = [] if on_gpu else [_Numpy()]
    absent = []
    for name in ("torch", "cupy") if on_gpu else ("torch",):
        try:
            found.append(_open(name, on_gpu))
        except Exception as error:  # a library that is broken here is none
            absent.append(NotRun(name, str(error)))
    return found, absent
