"""Sound as Whisper takes it: one channel at 16 kHz, and its log-mel spectrum."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit._core import _audio
from pygpukit.ops.audio import AudioBuffer, log_mel_whisper, read_audio, resample

__all__ = [
    "WHISPER_CHUNK_LENGTH",
    "WHISPER_HOP_LENGTH",
    "WHISPER_N_FFT",
    "WHISPER_N_FRAMES",
    "WHISPER_N_MELS",
    "WHISPER_N_SAMPLES",
    "WHISPER_SAMPLE_RATE",
    "load_audio",
    "normalize_mel",
    "pad_or_trim",
    "preprocess_audio",
    "preprocess_audio_batch",
]

WHISPER_SAMPLE_RATE = 16000
WHISPER_N_FFT = 400
WHISPER_HOP_LENGTH = 160
WHISPER_N_MELS = 80
WHISPER_CHUNK_LENGTH = 30
WHISPER_N_SAMPLES = 480000
WHISPER_N_FRAMES = 3000


def load_audio(audio: Any, sample_rate: int | None = None) -> gp.GPUArray:
    """One channel at 16 kHz, float32 [n]: of a file, an AudioBuffer, samples [n], or [channels, n], whose mean is taken.

    ``sample_rate`` is that of samples, 16000 when it is not given. Integers are full scale.
    """
    rate = WHISPER_SAMPLE_RATE if sample_rate is None else sample_rate
    if isinstance(audio, (str, os.PathLike)):
        samples, rate = read_audio(audio)
    elif isinstance(audio, AudioBuffer):
        samples, rate = audio.data.reshape((-1, audio.channels)).T, audio.sample_rate
    else:
        samples = _to_array(audio)
    if samples.ndim not in (1, 2):
        raise ValueError(f"audio must have shape [samples] or [channels, samples], got {tuple(samples.shape)}")
    if samples.ndim == 2:
        samples = samples[0] if samples.shape[0] == 1 else samples.mean(axis=0)
    return samples if rate == WHISPER_SAMPLE_RATE else resample(samples, rate, WHISPER_SAMPLE_RATE)


def _to_array(audio: Any) -> gp.GPUArray:
    if not isinstance(audio, gp.GPUArray):
        values = np.asarray(audio)
        audio = gp.from_numpy(np.ascontiguousarray(values, dtype=None if values.dtype.kind in "iu" else "float32"))
    return _audio.to_full_scale(audio)


def pad_or_trim(audio: Any, length: int = WHISPER_N_SAMPLES) -> Any:
    """The first ``length`` samples, followed by zeros where there are fewer. Of the kind it is given."""
    if isinstance(audio, gp.GPUArray):
        cut = audio[..., :length]
        missing = length - cut.shape[-1]
        return cut if missing == 0 else gp.pad(cut, [(0, 0)] * (cut.ndim - 1) + [(0, missing)])
    values = np.asarray(audio)[..., :length]
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, length - values.shape[-1])])


def normalize_mel(log_mel: gp.GPUArray) -> gp.GPUArray:
    """(max(x, max(x) - 8) + 4) / 4 of a spectrum in log10."""
    return (gp.maximum(log_mel, log_mel.max() - 8.0) + 4.0) / 4.0


def preprocess_audio(
    audio_input: Any, sample_rate: int | None = None, n_mels: int = WHISPER_N_MELS, padding: bool = True
) -> gp.GPUArray:
    """Log-mel [n_mels, 3000] of the first 30 s; without padding, of as many frames as there are, two at least.

    It lies on the current device, wherever the sound was.
    """
    samples = load_audio(audio_input, sample_rate).to(str(gp.empty((0,)).device))
    frames = WHISPER_N_FRAMES
    if not padding:
        frames = max(2, min(frames, samples.shape[-1] // WHISPER_HOP_LENGTH))
        samples = pad_or_trim(samples, max(samples.shape[-1], WHISPER_N_FFT))
    return log_mel_whisper(samples, n_mels, frames)[0]


def preprocess_audio_batch(
    audio_inputs: Sequence[Any], sample_rate: int | None = None, n_mels: int = WHISPER_N_MELS
) -> gp.GPUArray:
    """Log-mel [batch, n_mels, 3000] of several recordings."""
    return gp.stack([preprocess_audio(audio, sample_rate, n_mels) for audio in audio_inputs])
