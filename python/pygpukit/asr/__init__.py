"""Speech recognition: Whisper, from sound to text."""

from __future__ import annotations

from pygpukit.asr.whisper import (
    WHISPER_CONFIGS,
    WhisperConfig,
    WhisperDecoder,
    WhisperEncoder,
    WhisperWeights,
)

__all__ = [
    "WHISPER_CONFIGS",
    "WhisperConfig",
    "WhisperDecoder",
    "WhisperEncoder",
    "WhisperWeights",
]
