"""The networks of pygpukit.tts; internal."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import pygpukit._core
import pygpukit.core.dtypes
import pygpukit.typing


class Vocabulary:
    """Phonemes and their ids."""

    def __init__(self, config: str) -> None:
        """Of the JSON text of a config."""

    def ids(self, phonemes: str) -> list[int]:
        """Without pads; characters that have no id are left out."""

    def phonemes(self, ids: Sequence[int]) -> str:
        """Ids that have no phoneme are left out."""

def read_config(text: str) -> str:
    """The JSON text of a config with every member; strict."""

class ReadText:
    """What the networks know of a text before they speak."""

    @property
    def durations(self) -> pygpukit._core.GPUArray:
        """float32 [steps]: frames of each id, pads included, at speed 1."""

class Kokoro:
    """The networks of a Kokoro checkpoint, on one device in one dtype."""

    @staticmethod
    def open(folder: pygpukit.typing.PathLike, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike = 'float32') -> Kokoro:
        """Of a folder with config.json and SafeTensors."""

    @property
    def device(self) -> pygpukit._core.Device:
        """Where the weights are."""

    @property
    def dtype(self) -> pygpukit.core.dtypes.DataType:
        """The dtype of the weights."""

    @property
    def config_json(self) -> str:
        """config.json as read."""

    def say(self, ids: Sequence[int], style: Sequence[float], speed: float = 1.0, seed: int | None = None) -> tuple[pygpukit._core.GPUArray, list[Any], list[Any], dict[str, Any]]:
        """
        (audio, frames, frames before rounding, what the networks hand on) of ids without pads.
        """

    def read(self, ids: pygpukit._core.GPUArray, style: pygpukit._core.GPUArray, out: ReadText | None = None) -> ReadText:
        """
        The first half of say(), which a graph can capture with `out`: ids are int32 [steps] with a pad at both ends, style is [1, 256] in dtype.
        """

    def speak(self, text: ReadText, steps_of_frames: pygpukit._core.GPUArray, style: pygpukit._core.GPUArray, seed: int | None = None, *, out: pygpukit._core.GPUArray | None = None) -> pygpukit._core.GPUArray:
        """
        The second half, from the step that each frame is of, int32 [frames]: float32 samples.
        """

    def decode(self, text: pygpukit._core.GPUArray, f0: pygpukit._core.GPUArray, energy: pygpukit._core.GPUArray, style: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
        """The decoder alone."""

    def vocode(self, x: pygpukit._core.GPUArray, f0: pygpukit._core.GPUArray, style: pygpukit._core.GPUArray, seed: int | None = None) -> pygpukit._core.GPUArray:
        """The vocoder alone."""

    def say_all(self, ids: Sequence[Sequence[int]], styles: Sequence[Sequence[float]], speed: float = 1.0, seed: int | None = None) -> list[pygpukit._core.GPUArray]:
        """The audio of several, made beside each other."""

class Voice:
    """A style for every length of text."""

    @staticmethod
    def open(path: pygpukit.typing.PathLike) -> Voice:
        """Of a .bin file: float32 [510, 1, 256]."""

    def style(self, phonemes: SupportsIndex) -> list[float]:
        """The 256 values for a number of phonemes."""

    def array(self) -> pygpukit._core.GPUArray:
        """float32 [510, 1, 256] on the CPU."""

def language_of(voice: str) -> str:
    """The language of a voice by its name: a or b."""

def check_options(speed: Any | None, seed: Any | None) -> None:
    """TypeError or ValueError names the one that is not possible."""

def voice_names(folder: pygpukit.typing.PathLike) -> list[str]:
    """The voices of a model's folder."""

class Script:
    """What will be said, in pieces that the networks take whole."""

    @property
    def text(self) -> str:
        """The normalised text."""

    @property
    def phonemes(self) -> str:
        """All of it."""

    @property
    def guessed(self) -> list[str]:
        """Words of no lexicon."""

    @property
    def skipped(self) -> list[str]:
        """Characters and phonemes that are not spoken."""

    def __len__(self) -> int: ...

    @property
    def pieces(self) -> list[tuple[str, list[int]]]:
        """(phonemes, ids) of each piece."""

class Speaker:
    """Text to speech: front end, voices and networks."""

    @staticmethod
    def open(folder: pygpukit.typing.PathLike, device: pygpukit.typing.DeviceLike | None = None, dtype: pygpukit.typing.DTypeLike = 'float32', lexicons: pygpukit.typing.PathLike | None | None = None) -> Speaker:
        """Of a folder with config.json, SafeTensors and voices."""

    @property
    def networks(self) -> Kokoro:
        """The networks."""

    @property
    def voices(self) -> list[str]:
        """Their names."""

    @property
    def lexicons(self) -> tuple[str, str]:
        """Paths of the lexicons that were found; empty for none."""

    def voice(self, name: str) -> Voice:
        """A voice by name, several joined by '+' for their mean, or a .bin file."""

    def script(self, text: str | None, lang: str = 'a', soon: bool = False, normalize: bool = True, most: int = 0) -> Script:
        """
        What a text sounds like; soon: with a short first piece; normalize: numbers and signs as words; most: phonemes of a piece, 0 for what the networks take.
        """

    def script_of_phonemes(self, phonemes: str | None, soon: bool = False) -> Script:
        """The same of phonemes."""

    def say(self, script: Script, voice: Voice, speed: Any | None = 1.0, seed: Any | None = 0, limit_peak: bool = True, piece: int | None = None) -> pygpukit._core.GPUArray:
        """float32 samples of a script, or of one of its pieces."""

def join_audio(parts: pygpukit.typing.Arrays, gap_samples: SupportsIndex = 0) -> pygpukit._core.GPUArray:
    """float32 samples one after the other."""

def limit_peak(samples: pygpukit._core.GPUArray) -> pygpukit._core.GPUArray:
    """A copy, divided by its peak where that is above 1."""
