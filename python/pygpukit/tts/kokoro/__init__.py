"""Kokoro: configuration, tokenizer, weights, model, audio helpers and layers."""

from __future__ import annotations

from pygpukit.tts.kokoro.audio import AudioBuffer, concatenate_audio, from_wav, resample_audio, to_wav
from pygpukit.tts.kokoro.config import KokoroConfig
from pygpukit.tts.kokoro.loader import (
    get_weight_info,
    list_available_voices,
    load_kokoro_weights,
    load_voice_embedding,
    print_weight_summary,
)
from pygpukit.tts.kokoro.model import KokoroModel, SynthesisResult
from pygpukit.tts.kokoro.tokenizer import KokoroTokenizer, TokenizerOutput

__all__ = [
    "AudioBuffer",
    "KokoroConfig",
    "KokoroModel",
    "KokoroTokenizer",
    "SynthesisResult",
    "TokenizerOutput",
    "concatenate_audio",
    "from_wav",
    "get_weight_info",
    "list_available_voices",
    "load_kokoro_weights",
    "load_voice_embedding",
    "print_weight_summary",
    "resample_audio",
    "to_wav",
]
