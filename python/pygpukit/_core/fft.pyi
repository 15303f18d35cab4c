"""Fourier transforms of any length: the array API's fft extension."""

from typing import SupportsIndex

import pygpukit._core
import pygpukit.typing


def fft(x: pygpukit._core.GPUArray, *, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Complex transform along one axis. n cuts the axis or pads it with zeros.
    """

def ifft(x: pygpukit._core.GPUArray, *, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The inverse of fft."""

def rfft(x: pygpukit._core.GPUArray, *, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Transform of real values: the n // 2 + 1 frequencies from 0 up."""

def irfft(x: pygpukit._core.GPUArray, *, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The inverse of rfft: n real values, 2 * (m - 1) when n is not given."""

def hfft(x: pygpukit._core.GPUArray, *, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The real spectrum of a signal whose negative half mirrors x."""

def ihfft(x: pygpukit._core.GPUArray, *, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The inverse of hfft."""

def fftn(x: pygpukit._core.GPUArray, *, s: pygpukit.typing.AxisLike | None = None, axes: pygpukit.typing.AxisLike | None = None, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Complex transform along several axes, all when not given."""

def ifftn(x: pygpukit._core.GPUArray, *, s: pygpukit.typing.AxisLike | None = None, axes: pygpukit.typing.AxisLike | None = None, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The inverse of fftn."""

def rfftn(x: pygpukit._core.GPUArray, *, s: pygpukit.typing.AxisLike | None = None, axes: pygpukit.typing.AxisLike | None = None, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Transform of real values along several axes; the last one named is halved.
    """

def irfftn(x: pygpukit._core.GPUArray, *, s: pygpukit.typing.AxisLike | None = None, axes: pygpukit.typing.AxisLike | None = None, norm: str = 'backward', out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The inverse of rfftn."""

def fftfreq(n: SupportsIndex, *, d: float = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
    """The frequencies of fft's results for samples d apart."""

def rfftfreq(n: SupportsIndex, *, d: float = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
    """The frequencies of rfft's results for samples d apart."""

def fftshift(x: pygpukit._core.GPUArray, *, axes: pygpukit.typing.AxisLike | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Moves frequency 0 to the middle of the axes, all when not given."""

def ifftshift(x: pygpukit._core.GPUArray, *, axes: pygpukit.typing.AxisLike | None = None, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """Undoes fftshift."""
