"""The functions of pygpukit.ops.audio; internal."""

from collections.abc import Sequence
from typing import SupportsIndex

import pygpukit._core
import pygpukit.typing


def stft(x: pygpukit._core.GPUArray, n_fft: int = 512, hop_length: int = 160, win_length: int = -1, center: bool = True, window: pygpukit._core.GPUArray | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """complex64 [frames, bins] of a signal, or of each row of a batch."""

def istft(spectrum: pygpukit._core.GPUArray, n_fft: int = -1, hop_length: int = 160, win_length: int = -1, center: bool = True, length: int = -1, window: pygpukit._core.GPUArray | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """The signal of a complex64 spectrogram."""

def power_spectrum(spectrum: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """|z|^2 of a complex64 array."""

def magnitude_spectrum(spectrum: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """|z| of a complex64 array."""

def resample(signal: pygpukit._core.GPUArray, from_rate: int, to_rate: int, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    A float32 signal [n] or [batch, n] at another rate, [n * to_rate // from_rate].
    """

def log_mel_whisper(audio: pygpukit._core.GPUArray, n_mels: int = 80, frames: int = 3000, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    float32 [batch, n_mels, frames] of audio at 16 kHz, cut or padded with zeros, as Whisper wants it.
    """

def create_mel_filterbank(n_mels: int = 80, n_fft: int = 512, sample_rate: int = 16000, f_min: float = 0.0, f_max: float = -1.0, scale: str = 'htk', area_norm: bool = False, exact: bool = False, device: pygpukit.typing.DeviceLike | None = None) -> pygpukit._core.GPUArray:
    """Triangles of the mel scale, float32 [n_mels, n_fft // 2 + 1]."""

def harmonic_source(f0: pygpukit._core.GPUArray, mix: Sequence[float], bias: float = 0.0, noise: pygpukit._core.GPUArray | None = None, rate: float = 24000.0, step: int = 300, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    Samples of a mix of harmonics of f0, which is in Hz and has one value for each step.
    """

def magnitude_phase(spectrum: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    [2 bins, frames]: magnitudes, then phases, of a complex64 spectrum [frames, bins].
    """

def spectrum_from_logs(x: pygpukit._core.GPUArray, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
    """
    complex64 [frames, bins] of [2 bins, frames]: the exponential of the first half at the angle sin of the second.
    """

def read_wav(path: pygpukit.typing.PathLike) -> tuple[pygpukit._core.GPUArray, int]:
    """
    (samples, sample rate) of a WAV file: float32 [channels, n] on the CPU.
    """

def write_wav(path: pygpukit.typing.PathLike, samples: pygpukit._core.GPUArray, sample_rate: SupportsIndex, format: str = 'pcm16') -> None:
    """
    Writes float32 samples [n] or [channels, n] as pcm8, pcm16, pcm24, pcm32, float32 or float64.
    """
