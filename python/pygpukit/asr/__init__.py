"""Speech recognition: Whisper, from sound to text."""

from __future__ import annotations

from pygpukit.asr.preprocessing import (
    WHISPER_CHUNK_LENGTH,
    WHISPER_HOP_LENGTH,
    WHISPER_N_FFT,
    WHISPER_N_MELS,
    WHISPER_SAMPLE_RATE,
    load_audio,
    normalize_mel,
    pad_or_trim,
    preprocess_audio,
    preprocess_audio_batch,
)
from pygpukit.asr.whisper import (
    WHISPER_CONFIGS,
    TranscriptionResult,
    TranscriptionSegment,
    TranscriptionWord,
    WhisperConfig,
    WhisperDecoder,
    WhisperEncoder,
    WhisperModel,
    WhisperTokenizer,
    WhisperWeights,
    create_decoder,
    create_encoder,
    download_model,
    load_whisper_model,
)

__all__ = [
    "WHISPER_CHUNK_LENGTH",
    "WHISPER_CONFIGS",
    "WHISPER_HOP_LENGTH",
    "WHISPER_N_FFT",
    "WHISPER_N_MELS",
    "WHISPER_SAMPLE_RATE",
    "TranscriptionResult",
    "TranscriptionSegment",
    "TranscriptionWord",
    "WhisperConfig",
    "WhisperDecoder",
    "WhisperEncoder",
    "WhisperModel",
    "WhisperTokenizer",
    "WhisperWeights",
    "create_decoder",
    "create_encoder",
    "download_model",
    "load_audio",
    "load_whisper_model",
    "normalize_mel",
    "pad_or_trim",
    "preprocess_audio",
    "preprocess_audio_batch",
]
