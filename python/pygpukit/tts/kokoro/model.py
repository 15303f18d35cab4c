"""The model: text in, speech out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pygpukit._core import _tts
from pygpukit.tts.kokoro.audio import AudioBuffer, to_wav
from pygpukit.tts.kokoro.config import KokoroConfig
from pygpukit.tts.kokoro.tokenizer import KokoroTokenizer, TokenizerOutput
from pygpukit.typing import DeviceLike, DTypeLike, PathLike

__all__ = ["KokoroModel", "SynthesisResult"]


@dataclass
class SynthesisResult:
    """Speech, the normalised text, and the phonemes that were said.

    ``guessed`` lists words of no lexicon, ``skipped`` characters that are not spoken. ``source`` says where the phonemes
    are from, as :class:`KokoroTokenizer` does, or "phonemes" where they were given.
    """

    audio: AudioBuffer
    text: str
    phonemes: str
    duration_sec: float
    guessed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    source: str = "lexicons"

    def to_wav(self, path: PathLike) -> None:
        """Writes 16-bit samples."""
        to_wav(self.audio, path)

    def to_numpy(self) -> NDArray[np.float32]:
        """A copy of the samples on the host."""
        return self.audio.to_numpy()


class KokoroModel:
    """Kokoro with one voice at a time. Calls from several threads, and streams in turn, do not disturb each other.

    ``lang`` is "a" (American) or "b" (British English); None: that of the voice by its name. ``use_misaki`` and
    ``use_espeak`` take phonemes as KokoroTokenizer does: of the package misaki, or of the program espeak-ng. None for
    ``use_misaki`` takes that package, where it is installed, for British English alone.
    """

    def __init__(
        self,
        speaker: _tts.Speaker,
        voice: str,
        *,
        lang: str | None = None,
        use_misaki: bool | None = None,
        use_espeak: bool = False,
    ) -> None:
        self._speaker = speaker
        self._voices: dict[str, _tts.Voice] = {}
        self._tokenizers: dict[str, KokoroTokenizer] = {}
        self._rate: int = json.loads(speaker.networks.config_json)["sample_rate"]
        self._lang, self._use_misaki, self._use_espeak = lang, use_misaki, use_espeak
        self.set_voice(voice)
        if lang is not None:
            speaker.script("", lang)
        self._other_tokenizer(self._language(voice))

    @classmethod
    def from_pretrained(
        cls,
        path: PathLike,
        voice: str = "af_heart",
        dtype: DTypeLike = "bfloat16",
        load_all_voices: bool = False,
        *,
        device: DeviceLike | None = None,
        lexicons: PathLike | None = None,
        lang: str | None = None,
        use_misaki: bool | None = None,
        use_espeak: bool = False,
    ) -> KokoroModel:
        """Of a folder with config.json, SafeTensors and voices.

        ``lexicons`` is a folder with us_gold.json and us_silver.json; by default they are looked for beside the model.
        """
        speaker = _tts.Speaker.open(path, device, dtype, lexicons)
        model = cls(speaker, voice, lang=lang, use_misaki=use_misaki, use_espeak=use_espeak)
        for name in model.available_voices if load_all_voices else ():
            model.load_voice(name)
        return model

    @property
    def config(self) -> KokoroConfig:
        """The sizes of the networks."""
        return KokoroConfig.from_dict(json.loads(self._speaker.networks.config_json))

    @property
    def networks(self) -> _tts.Kokoro:
        """The networks alone, from ids and styles to samples."""
        return self._speaker.networks

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self._rate

    @property
    def lang(self) -> str:
        """The language of calls that name no voice: "a" or "b"."""
        return self._language(self._current)

    @property
    def available_voices(self) -> list[str]:
        """Names of the voices beside the model."""
        return self._speaker.voices

    @property
    def current_voice(self) -> str:
        """The voice of calls that name none."""
        return self._current

    def load_voice(self, name: str) -> str:
        """Reads a voice and returns its name: one, several joined by "+" for their mean, or the path of a .bin file."""
        if name not in self._voices:
            self._voices[name] = self._speaker.voice(name)
        return name

    def set_voice(self, name: str) -> None:
        """Makes a voice the one of calls that name none."""
        self._current = self.load_voice(name)

    def synthesize(
        self,
        text: str,
        voice: str | None = None,
        speed: float = 1.0,
        normalize: bool = True,
        *,
        seed: int | None = 0,
        phonemes: str | None = None,
        limit_peak: bool = True,
    ) -> SynthesisResult:
        """Speech of a text. The same arguments give the same samples.

        ``normalize`` writes numbers, dates, money and signs of the text as words; without it they are skipped. ``seed``
        is that of the noise in the voice; None is without. ``phonemes`` are said instead of the text's. ``limit_peak``
        scales what would be louder than full scale. ValueError where nothing can be said.
        """
        script, loaded, said = self._script(text, voice, phonemes, soon=False, normalize=normalize)
        samples = self._speaker.say(script, loaded, speed, seed, limit_peak)
        audio = AudioBuffer(samples, self._rate)
        seconds = samples.size / self._rate
        words = script.text or text
        return SynthesisResult(audio, words, script.phonemes, seconds, said.guessed, said.skipped, said.source)

    def __call__(
        self,
        text: str,
        voice: str | None = None,
        speed: float = 1.0,
        normalize: bool = True,
        *,
        seed: int | None = 0,
        phonemes: str | None = None,
        limit_peak: bool = True,
    ) -> SynthesisResult:
        """synthesize."""
        return self.synthesize(text, voice, speed, normalize, seed=seed, phonemes=phonemes, limit_peak=limit_peak)

    def generate_stream(
        self,
        text: str,
        voice: str | None = None,
        chunk_size: int = 4800,
        *,
        speed: float = 1.0,
        seed: int | None = 0,
        normalize: bool = True,
    ) -> Iterator[AudioBuffer]:
        """Sound in chunks of samples, the first after the first clause; nothing where nothing can be said.

        The last chunk of a piece may be shorter.
        """
        if not isinstance(chunk_size, int) or chunk_size < 1:
            raise ValueError(f"generate_stream: chunk_size must be a positive integer, got {chunk_size!r}")
        _tts.check_options(speed, seed)
        script, loaded, _ = self._script(text, voice, None, soon=True, normalize=normalize)
        return self._chunks(script, loaded, chunk_size, speed, seed)

    def _chunks(
        self, script: _tts.Script, voice: _tts.Voice, chunk_size: int, speed: float, seed: int | None
    ) -> Iterator[AudioBuffer]:
        for piece in range(len(script)):
            samples = self._speaker.say(script, voice, speed, seed, True, piece)
            for start in range(0, samples.size, chunk_size):
                yield AudioBuffer(samples[start : start + chunk_size], self._rate)

    async def stream(
        self,
        text: str,
        voice: str | None = None,
        chunk_size: int = 4800,
        *,
        speed: float = 1.0,
        seed: int | None = 0,
        normalize: bool = True,
    ) -> AsyncIterator[AudioBuffer]:
        """generate_stream for asyncio: other tasks run while a piece is made, streams of other texts too."""
        chunks = self.generate_stream(text, voice, chunk_size, speed=speed, seed=seed, normalize=normalize)
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            yield chunk

    def print_info(self) -> None:
        """Prints the device, the dtype, the voices and the lexicons."""
        networks = self._speaker.networks
        print(f"Kokoro on {networks.device}, {networks.dtype}, {self._rate} Hz")
        print(f"voice: {self.current_voice} of {', '.join(self.available_voices) or 'none'}")
        print(f"lexicons: {', '.join(filter(None, self._speaker.lexicons)) or 'none: words are said by spelling'}")

    def _language(self, voice: str) -> str:
        return _tts.language_of(voice) if self._lang is None else self._lang

    def _other_tokenizer(self, lang: str) -> KokoroTokenizer | None:
        """The tokenizer of misaki or of espeak-ng; None where the speaker's own front end is meant."""
        wanted = lang == "b" if self._use_misaki is None else self._use_misaki
        if not wanted and not self._use_espeak:
            return None
        if lang not in self._tokenizers:
            found = [Path(path).parent for path in self._speaker.lexicons if path]
            self._tokenizers[lang] = KokoroTokenizer(
                lang=lang,
                use_misaki=wanted,
                lexicons=found[0] if found else None,
                use_espeak=self._use_espeak,
            )
        tokenizer = self._tokenizers[lang]
        return tokenizer if tokenizer.source in ("misaki", "espeak-ng") else None

    def _source(self, lang: str) -> str:
        if not any(self._speaker.lexicons):
            return "spelling"
        return "lexicons" if lang == "a" else "American lexicons"

    def _script(
        self, text: str, voice: str | None, phonemes: str | None, soon: bool, normalize: bool
    ) -> tuple[_tts.Script, _tts.Voice, TokenizerOutput]:
        """What will be said, by whom, and where the phonemes are from."""
        name = self.load_voice(self._current if voice is None else voice)
        loaded, lang = self._voices[name], self._language(name)
        if phonemes is not None:
            script = self._speaker.script_of_phonemes(phonemes, soon)
            return script, loaded, TokenizerOutput([], phonemes, text, [], script.skipped, "phonemes")
        other = self._other_tokenizer(lang)
        if other is not None:
            said = other.encode(text, normalize)
            script = self._speaker.script_of_phonemes(said.phonemes, soon)
            said.skipped += [mark for mark in script.skipped if mark not in said.skipped]
            return script, loaded, said
        script = self._speaker.script(text, lang, soon, normalize)
        source = self._source(lang)
        return script, loaded, TokenizerOutput([], script.phonemes, text, script.guessed, script.skipped, source)
