"""Whisper as a whole: sound to text with times."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pygpukit as gp
from pygpukit._core import GPUArray, _asr
from pygpukit._core._asr import (
    Transcriber,
    TranscriptionSegment,
    TranscriptionWord,
    Whisper,
    WhisperDecoder,
    WhisperEncoder,
    WhisperTokenizer,
    WhisperWeights,
)
from pygpukit.asr.preprocessing import load_audio
from pygpukit.asr.whisper.config import WhisperConfig
from pygpukit.io import find_model
from pygpukit.io import load_safetensors as open_safetensors

__all__ = [
    "TranscriptionResult",
    "TranscriptionSegment",
    "TranscriptionWord",
    "WhisperModel",
    "WhisperStream",
    "WhisperTokenizer",
    "create_decoder",
    "create_encoder",
    "download_model",
    "load_safetensors",
    "load_whisper_model",
]


@dataclass
class TranscriptionResult:
    """A text, its parts with their times, and the language that was heard."""

    text: str
    segments: list[TranscriptionSegment] = field(default_factory=list)
    language: str | None = None


def download_model(model_id: str, cache_dir: str | os.PathLike[str] | None = None) -> str:
    """Brings a model to this disk with an installed ``huggingface_hub``; the path of its folder.

    Nothing else of the package downloads anything.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError("download_model needs huggingface_hub: pip install huggingface_hub") from error
    patterns = ["*.json", "*.safetensors", "*.txt"]
    folder = None if cache_dir is None else os.fspath(cache_dir)
    return str(snapshot_download(model_id, cache_dir=folder, allow_patterns=patterns))


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, GPUArray]:
    """Every tensor of a file, an index or a folder."""
    file = open_safetensors(path)
    return {name: file.load(name) for name in file}


def load_whisper_model(
    path_or_id: str | os.PathLike[str], cache_dir: str | os.PathLike[str] | None = None
) -> tuple[WhisperConfig, WhisperWeights]:
    """The configuration and weights of a folder, or of a model in the Hugging Face cache of this disk."""
    weights = WhisperWeights.from_safetensors(find_model(path_or_id, cache_dir))
    return weights.config, weights


def create_encoder(config: WhisperConfig, weights: WhisperWeights) -> WhisperEncoder:
    """The encoder of these weights."""
    return WhisperEncoder(config, weights)


def create_decoder(config: WhisperConfig, weights: WhisperWeights) -> WhisperDecoder:
    """The decoder of these weights."""
    return WhisperDecoder(config, weights)


class WhisperStream(_asr.WhisperStream):
    """Speech written down while it is heard: words that stay, and text that may still change."""

    def push(self, samples: Any) -> None:
        """Samples [n] or [channels, n] at 16 kHz, an array of any kind. Computes nothing."""
        if not isinstance(samples, GPUArray):
            with gp.device("cpu"):
                samples = load_audio(samples)
        super().push(samples)


class WhisperModel:
    """Speech to text. ``from_pretrained`` makes one with everything it needs.

    >>> model = WhisperModel.from_pretrained("openai/whisper-tiny")  # doctest: +SKIP
    >>> model.transcribe("speech.wav").text  # doctest: +SKIP
    ' And so my fellow Americans ...'
    """

    def __init__(
        self,
        config: WhisperConfig,
        encoder: WhisperEncoder,
        decoder: WhisperDecoder,
        tokenizer: WhisperTokenizer | None = None,
    ) -> None:
        self._set(Whisper.from_parts(config, encoder, decoder, tokenizer), tokenizer)

    def _set(self, model: Whisper, tokenizer: WhisperTokenizer | None) -> None:
        self._model = model
        self.config = model.config
        self.encoder = model.encoder
        self.decoder = model.decoder
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(
        cls,
        model_path_or_id: str | os.PathLike[str],
        cache_dir: str | os.PathLike[str] | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
        quantize: Any = None,
    ) -> WhisperModel:
        """Of a folder, or of a model in the Hugging Face cache of this disk; nothing is downloaded.

        ``dtype`` is float32 on the CPU and float16 on a GPU when it is not given. ``quantize`` packs the matrices of
        the layers as int8, float8_e4m3, ...
        """
        path = find_model(model_path_or_id, cache_dir)
        self = cls.__new__(cls)
        self._set(Whisper(path, device=device, dtype=dtype, quantize=quantize), WhisperTokenizer(path))
        return self

    @property
    def languages(self) -> list[str]:
        """Codes of the languages it knows."""
        return self._model.languages

    def detect_language(self, audio: Any, sample_rate: int | None = None) -> dict[str, float]:
        """The probability of each language by the first 30 s, likeliest first."""
        return dict(self._model.detect_language(load_audio(audio, sample_rate)))

    def transcriber(self, audio: Any, sample_rate: int | None = None, **options: Any) -> Transcriber:
        """A transcription to be taken step by step; the options are those of ``transcribe``."""
        return Transcriber(self._model, load_audio(audio, sample_rate), **options)

    def transcribe(
        self,
        audio: Any,
        sample_rate: int | None = None,
        language: str | None = None,
        max_length: int = 448,
        temperature: Any = 0.0,
        *,
        on_progress: Callable[[Transcriber], object] | None = None,
        **options: Any,
    ) -> TranscriptionResult:
        """Writes a recording of any length down.

        ``audio`` is a file, samples [n] or [channels, n]. Several temperatures are tried in turn where a text repeats
        itself or is unlikely. Further options: ``task`` ("translate": to English), ``beam_size``, ``best_of``,
        ``patience``, ``length_penalty``, ``timestamps``, ``word_timestamps``, ``initial_prompt``,
        ``condition_on_previous_text``, ``compression_ratio_threshold``, ``logprob_threshold``,
        ``no_speech_threshold``, ``skip_silence``, ``batch_size``, ``suppress_tokens``, ``seed``, ``chunk_length``,
        ``overlap``, ``graphs``. ``on_progress`` is called after each step.
        """
        work = self.transcriber(
            audio, sample_rate, language=language, max_length=max_length, temperature=temperature, **options
        )
        while work.step():
            if on_progress is not None:
                on_progress(work)
        return TranscriptionResult(work.text, work.segments, work.language or None)

    def transcribe_streaming(
        self,
        audio: Any,
        language: str | None = None,
        chunk_length: float = 30,
        overlap: float = 0.0,
        max_length: int = 448,
        temperature: Any = 0.0,
        *,
        sample_rate: int | None = None,
        **options: Any,
    ) -> Iterator[TranscriptionSegment]:
        """The parts of a text as they are known, while the rest is still to be heard.

        A window hears ``chunk_length`` seconds, 1 to 30, of which the first ``overlap`` were heard before; it begins
        where the timestamps say that the text ended.
        """
        work = self.transcriber(
            audio,
            sample_rate,
            language=language,
            max_length=max_length,
            temperature=temperature,
            chunk_length=chunk_length,
            overlap=overlap,
            **options,
        )
        given = 0
        while work.step():
            segments = work.segments
            yield from segments[given:]
            given = len(segments)

    def stream(self, **options: Any) -> WhisperStream:
        """For speech that is still going on: ``push`` samples at 16 kHz, ``update`` now and then, ``finish`` at the end.

        Options: ``language``, ``task``, ``temperature``, ``beam_size``, ``initial_prompt``.
        """
        return WhisperStream(self._model, **options)
