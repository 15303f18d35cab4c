"""Whisper and its parts."""

from __future__ import annotations

from pygpukit._core._asr import (
    WhisperDecoder,
    WhisperDecoderLayer,
    WhisperEncoder,
    WhisperEncoderLayer,
    WhisperWeights,
)
from pygpukit.asr.whisper.config import WHISPER_CONFIGS, WhisperConfig
from pygpukit.asr.whisper.model import (
    TranscriptionResult,
    TranscriptionSegment,
    TranscriptionWord,
    WhisperModel,
    WhisperStream,
    WhisperTokenizer,
    create_decoder,
    create_encoder,
    download_model,
    load_safetensors,
    load_whisper_model,
)

__all__ = [
    "WHISPER_CONFIGS",
    "TranscriptionResult",
    "TranscriptionSegment",
    "TranscriptionWord",
    "WhisperConfig",
    "WhisperDecoder",
    "WhisperDecoderLayer",
    "WhisperEncoder",
    "WhisperEncoderLayer",
    "WhisperModel",
    "WhisperStream",
    "WhisperTokenizer",
    "WhisperWeights",
    "create_decoder",
    "create_encoder",
    "download_model",
    "load_safetensors",
    "load_whisper_model",
]
