"""Sound: samples, filters, streams, files, and what audio_features measures and changes."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pygpukit._core import GPUArray, _audio, from_numpy
from pygpukit._core._audio import (
    VAD,
    AudioRingBuffer,
    AudioStream,
    SpeechSegment,
    compute_short_term_energy,
    deemphasis,
    highpass_filter,
    log_mel_whisper,
    noise_gate,
    preemphasis,
    read_wav,
    remove_dc,
    resample,
    spectral_gate,
    write_wav,
)
from pygpukit.ops import audio_features
from pygpukit.ops.audio_features import *  # noqa: F403

__all__ = [
    "VAD",
    "AudioBuffer",
    "AudioRingBuffer",
    "AudioStream",
    "SpeechSegment",
    "compute_short_term_energy",
    "deemphasis",
    "from_pcm",
    "highpass_filter",
    "log_mel_whisper",
    "noise_gate",
    "preemphasis",
    "read_audio",
    "read_wav",
    "remove_dc",
    "resample",
    "spectral_gate",
    "write_wav",
]
__all__ += audio_features.__all__


@dataclass(eq=False, repr=False)
class AudioBuffer:
    """float32 samples ``[n * channels]``, the channels side by side, and how many of each make a second."""

    data: GPUArray
    sample_rate: int
    channels: int = 1

    def __post_init__(self) -> None:
        _audio.check_buffer(self.data, self.sample_rate, self.channels)

    def to_mono(self) -> AudioBuffer:
        """The mean of two channels; itself when there is one."""
        if self.channels == 1:
            return self
        return AudioBuffer(_audio.to_mono(self.data, self.channels), self.sample_rate, 1)

    def resample(self, target_rate: int) -> AudioBuffer:
        """The same sound at another rate; itself when it has that rate."""
        if target_rate == self.sample_rate:
            return self
        data = _audio.resample_channels(self.data, self.channels, self.sample_rate, target_rate)
        return AudioBuffer(data, target_rate, self.channels)

    def normalize(self, mode: str = "peak", target_db: float = -20.0) -> AudioBuffer:
        """Scales the samples in place: the peak to 1, or with ``"rms"`` their root mean square to ``target_db``."""
        _audio.normalize(self.data, mode, target_db)
        return self

    def to_numpy(self) -> NDArray[np.float32]:
        """A copy of the samples on the host."""
        return np.asarray(self.data.to_numpy(), np.float32)

    def __len__(self) -> int:
        return self.data.shape[0]

    def __repr__(self) -> str:
        return f"AudioBuffer(samples={len(self)}, sample_rate={self.sample_rate}, channels={self.channels})"


def from_pcm(samples: GPUArray | NDArray[np.int16] | NDArray[np.float32], sample_rate: int, channels: int = 1) -> AudioBuffer:
    """A buffer of int16 samples, scaled so that full scale is 1, or of float32 ones, which are kept as they are."""
    array = samples if isinstance(samples, GPUArray) else from_numpy(np.ascontiguousarray(samples))
    return AudioBuffer(_audio.from_pcm(array), sample_rate, channels)


def read_audio(path: str | os.PathLike[str]) -> tuple[GPUArray, int]:
    """float32 ``[channels, n]`` on the CPU and the rate of a file: WAV by ourselves, anything else by soundfile."""
    name = os.fspath(path)
    if name.lower().endswith((".wav", ".wave")):
        return read_wav(name)
    with open(name, "rb") as file:  # a missing file is told as one, with soundfile and without
        try:
            import soundfile
        except ImportError as error:
            raise ImportError(f"{name}: only WAV files are read without soundfile: pip install soundfile") from error
        samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    return from_numpy(np.ascontiguousarray(samples.T), device="cpu"), rate
