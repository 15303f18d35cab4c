"""Whisper and its parts."""

from __future__ import annotations

from pygpukit._core._asr import WhisperDecoder, WhisperEncoder, WhisperWeights
from pygpukit.asr.whisper.config import WHISPER_CONFIGS, WhisperConfig

__all__ = ["WHISPER_CONFIGS", "WhisperConfig", "WhisperDecoder", "WhisperEncoder", "WhisperWeights"]
