"""The sizes of the models that are known by name."""

from __future__ import annotations

from pygpukit._core._asr import WhisperConfig

__all__ = ["WHISPER_CONFIGS", "WhisperConfig"]


def _multilingual(width: int, heads: int, layers: int) -> WhisperConfig:
    return WhisperConfig(
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        vocab_size=51865,
        num_mel_bins=80,
        pad_token_id=50257,
    )


WHISPER_CONFIGS = {
    "tiny": _multilingual(384, 6, 4),
    "base": _multilingual(512, 8, 6),
    "small": _multilingual(768, 12, 12),
    "medium": _multilingual(1024, 16, 24),
    "large": _multilingual(1280, 20, 32),
    "large-v3": WhisperConfig(),
    "kotoba-v2": WhisperConfig(decoder_layers=2),
}
