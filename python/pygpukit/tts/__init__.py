"""Text to speech: Kokoro-82M with an English front end of its own.

>>> from pygpukit.tts import KokoroTokenizer
>>> KokoroTokenizer(use_misaki=False).normalize_text("It is 5:30 pm.")
'It is five thirty P.M.'
"""

from __future__ import annotations

from pygpukit.tts.kokoro import (
    KokoroConfig,
    KokoroModel,
    KokoroTokenizer,
    SynthesisResult,
    concatenate_audio,
    from_wav,
    list_available_voices,
    load_kokoro_weights,
    load_voice_embedding,
    resample_audio,
    to_wav,
)

__all__ = [
    "KokoroConfig",
    "KokoroModel",
    "KokoroTokenizer",
    "SynthesisResult",
    "concatenate_audio",
    "from_wav",
    "list_available_voices",
    "load_kokoro_weights",
    "load_voice_embedding",
    "resample_audio",
    "to_wav",
]
