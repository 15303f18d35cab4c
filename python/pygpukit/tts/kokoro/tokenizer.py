"""English text to phonemes and their ids."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pygpukit._core._english import Phonemizer, normalize_text, split_sentences
from pygpukit._core._tts import Vocabulary
from pygpukit.typing import PathLike

__all__ = ["KokoroTokenizer", "TokenizerOutput"]

_PAD = 0


@dataclass
class TokenizerOutput:
    """The ids of a text with a pad at both ends, its phonemes, and the text."""

    tokens: list[int]
    phonemes: str
    text: str


class KokoroTokenizer:
    """Text to phonemes by the lexicons in the folder ``lexicons``, or by rules of spelling where there is none.

    ``lang`` is "a" (American) or "b" (British English). ``use_misaki`` takes the package misaki instead where it is
    installed, ``use_espeak`` the program espeak-ng, which must be. ``vocab`` maps phonemes to ids.
    """

    def __init__(
        self,
        vocab: Mapping[str, int] | None = None,
        lang: str = "a",
        use_misaki: bool = True,
        *,
        lexicons: PathLike | None = None,
        use_espeak: bool = False,
    ) -> None:
        self.lang = lang
        self._vocabulary = Vocabulary(json.dumps({} if vocab is None else {"vocab": dict(vocab)}))
        gold, silver = (_lexicon(lexicons, kind) for kind in ("gold", "silver"))
        self._phonemizer = Phonemizer(gold, silver, lang)
        self._use_espeak = use_espeak
        self._misaki = _misaki(lang) if use_misaki and not use_espeak else None

    def normalize_text(self, text: str) -> str:
        """Numbers, money, times, dates, units, abbreviations, addresses and signs as words."""
        return normalize_text(text)

    def split_sentences(self, text: str) -> list[str]:
        """The sentences with their punctuation."""
        return split_sentences(text)

    def text_to_phonemes(self, text: str) -> str:
        """What is said; ``[word](/phonemes/)`` gives the phonemes of a word."""
        if self._use_espeak:
            return _espeak(text, self.lang)
        if self._misaki is not None:
            phonemes: str = self._misaki(text)[0]
            return phonemes
        return self._phonemizer(text).phonemes

    def phonemes_to_tokens(self, phonemes: str) -> list[int]:
        """Ids with a pad at both ends. Characters that have no id are left out."""
        return [_PAD, *self._vocabulary.ids(phonemes), _PAD]

    def encode(self, text: str) -> TokenizerOutput:
        """Phonemes and ids of a text."""
        phonemes = self.text_to_phonemes(text)
        return TokenizerOutput(self.phonemes_to_tokens(phonemes), phonemes, text)

    def decode(self, tokens: Sequence[int]) -> str:
        """The phonemes of ids, without pads."""
        return self._vocabulary.phonemes(list(tokens))


def _lexicon(folder: PathLike | None, kind: str) -> str:
    """The path of a lexicon, empty where there is none."""
    file = Path("" if folder is None else folder) / f"us_{kind}.json"
    return str(file) if folder is not None and file.is_file() else ""


def _misaki(lang: str) -> Any:
    """The converter of the package misaki, or None where it is not installed."""
    if importlib.util.find_spec("misaki") is None:
        return None
    en: Any = importlib.import_module("misaki.en")
    return en.G2P(trf=False, british=lang == "b", fallback=None)


def _espeak(text: str, lang: str) -> str:
    voice = "en-gb" if lang == "b" else "en-us"
    command = ["espeak-ng", "-q", "--ipa", "-v", voice, "--stdin"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=True)
    return " ".join(done.stdout.split())
