"""The model: text in, speech out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit._core import _tts
from pygpukit.tts.kokoro.audio import AudioBuffer, to_wav
from pygpukit.tts.kokoro.config import KokoroConfig
from pygpukit.typing import DeviceLike, DTypeLike, PathLike

__all__ = ["KokoroModel", "SynthesisResult"]


@dataclass
class SynthesisResult:
    """Speech, the normalised text, and the phonemes that were said.

    ``guessed`` lists words of no lexicon, ``skipped`` characters that are not spoken.
    """

    audio: AudioBuffer
    text: str
    phonemes: str
    duration_sec: float
    guessed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def to_wav(self, path: PathLike) -> None:
        """Writes 16-bit samples."""
        to_wav(self.audio, path)

    def to_numpy(self) -> NDArray[np.float32]:
        """A copy of the samples on the host."""
        return self.audio.to_numpy()


class KokoroModel:
    """Kokoro with one voice at a time. Calls from several threads, and streams in turn, do not disturb each other."""

    def __init__(self, speaker: _tts.Speaker, voice: str) -> None:
        self._speaker = speaker
        self._voices: dict[str, _tts.Voice] = {}
        self._rate: int = json.loads(speaker.networks.config_json)["sample_rate"]
        self.set_voice(voice)

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
    ) -> KokoroModel:
        """Of a folder with config.json, SafeTensors and voices.

        ``lexicons`` is a folder with us_gold.json and us_silver.json; by default they are looked for beside the model.
        """
        model = cls(_tts.Speaker.open(path, device, dtype, lexicons), voice)
        for name in model.available_voices if load_all_voices else ():
            model.load_voice(name)
        return model

    @property
    def config(self) -> KokoroConfig:
        """The sizes of the networks."""
        return KokoroConfig.from_dict(json.loads(self._speaker.networks.config_json))

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self._rate

    @property
    def available_voices(self) -> list[str]:
        """Names of the voices beside the model."""
        return self._speaker.voices

    @property
    def current_voice(self) -> str:
        """The voice of calls that name none."""
        return self._current

    def load_voice(self, name: str) -> None:
        """Reads a voice: a name, several joined by "+" for their mean, or the path of a .bin file."""
        if name not in self._voices:
            self._voices[name] = self._speaker.voice(name)

    def set_voice(self, name: str) -> None:
        """Makes a voice the one of calls that name none."""
        self.load_voice(name)
        self._current = name

    def synthesize(
        self,
        text: str,
        voice: str | None = None,
        speed: float = 1.0,
        normalize: bool = True,
        *,
        seed: int | None = 0,
        phonemes: str | None = None,
    ) -> SynthesisResult:
        """Speech of a text. The same arguments give the same samples.

        ``normalize`` scales what would be louder than full scale. ``seed`` is that of the noise in the voice; None is
        without. ``phonemes`` are said instead of the text's. ValueError where nothing can be said.
        """
        script, loaded = self._script(text, voice, phonemes, soon=False)
        samples = self._speaker.say(script, loaded, speed, seed, normalize)
        audio = AudioBuffer(samples, self._rate)
        seconds = samples.size / self._rate
        return SynthesisResult(audio, script.text or text, script.phonemes, seconds, script.guessed, script.skipped)

    __call__ = synthesize

    def generate_stream(
        self,
        text: str,
        voice: str | None = None,
        chunk_size: int = 4800,
        *,
        speed: float = 1.0,
        seed: int | None = 0,
    ) -> Iterator[gp.GPUArray]:
        """Samples in chunks, the first after the first clause. The last chunk of a piece may be shorter."""
        if chunk_size < 1:
            raise ValueError(f"generate_stream: chunk_size must be positive, got {chunk_size}")
        script, loaded = self._script(text, voice, None, soon=True)
        return self._chunks(script, loaded, chunk_size, speed, seed)

    def _chunks(
        self, script: _tts.Script, voice: _tts.Voice, chunk_size: int, speed: float, seed: int | None
    ) -> Iterator[gp.GPUArray]:
        for piece in range(len(script)):
            samples = self._speaker.say(script, voice, speed, seed, True, piece)
            for start in range(0, samples.size, chunk_size):
                yield samples[start : start + chunk_size]

    async def stream(
        self, text: str, voice: str | None = None, chunk_size: int = 4800, *, speed: float = 1.0, seed: int | None = 0
    ) -> AsyncIterator[gp.GPUArray]:
        """generate_stream for asyncio: other tasks run while a piece is made, streams of other texts too."""
        chunks = self.generate_stream(text, voice, chunk_size, speed=speed, seed=seed)
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            yield chunk

    def print_info(self) -> None:
        """Prints the device, the dtype, the voices and the lexicons."""
        networks = self._speaker.networks
        print(f"Kokoro on {networks.device}, {networks.dtype}, {self._rate} Hz")
        print(f"voice: {self.current_voice} of {', '.join(self.available_voices) or 'none'}")
        print(f"lexicons: {', '.join(filter(None, self._speaker.lexicons)) or 'none: words are said by spelling'}")

    def _script(self, text: str, voice: str | None, phonemes: str | None, soon: bool) -> tuple[_tts.Script, _tts.Voice]:
        name = self._current if voice is None else voice
        self.load_voice(name)
        if phonemes is not None:
            return self._speaker.script_of_phonemes(phonemes, soon), self._voices[name]
        return self._speaker.script(text, _tts.language_of(name), soon), self._voices[name]
