"""Samples and WAV files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit._core import _tts
from pygpukit.ops.audio import AudioBuffer, read_wav, resample, write_wav
from pygpukit.typing import PathLike

__all__ = ["AudioBuffer", "Samples", "as_array", "concatenate_audio", "from_wav", "resample_audio", "to_wav"]


Samples = gp.GPUArray | NDArray[np.float32] | AudioBuffer


def as_array(samples: Samples) -> gp.GPUArray:
    """The array itself, that of a buffer, or a copy of a NumPy array."""
    if isinstance(samples, AudioBuffer):
        return samples.data
    return samples if isinstance(samples, gp.GPUArray) else gp.from_numpy(np.ascontiguousarray(samples, np.float32))


def to_wav(audio: Samples, path: PathLike, sample_rate: int = 24000, normalize: bool = True) -> None:
    """Writes 16-bit samples. ``normalize`` scales what is louder than full scale; else it is cut there.

    An :class:`AudioBuffer` brings its own rate.
    """
    rate = audio.sample_rate if isinstance(audio, AudioBuffer) else sample_rate
    samples = as_array(audio)
    write_wav(path, _tts.limit_peak(samples) if normalize and samples.ndim == 1 else samples, rate)


def from_wav(path: PathLike) -> tuple[gp.GPUArray, int]:
    """(float32 samples, rate): ``[n]`` of a file of one channel, else ``[channels, n]``. On the CPU."""
    samples, rate = read_wav(path)
    return (samples[0] if samples.shape[0] == 1 else samples), rate


def resample_audio(samples: Samples, orig_sr: int, target_sr: int) -> gp.GPUArray:
    """Samples ``[n]`` at another rate; frequencies that it has no room for are cut."""
    return resample(as_array(samples), orig_sr, target_sr)


def concatenate_audio(audio_list: Sequence[Samples], gap_samples: int = 0) -> gp.GPUArray:
    """One after the other with silence between."""
    return _tts.join_audio([as_array(part) for part in audio_list], gap_samples)
