"""English text to phonemes and their ids."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pygpukit._core._english import (
    Phonemizer,
    espeak_clauses,
    find_lexicons,
    normalize_text,
    phonemes_of_espeak,
    split_sentences,
)
from pygpukit._core._tts import Vocabulary
from pygpukit.typing import PathLike

__all__ = ["KokoroTokenizer", "TokenizerOutput"]

_PAD = 0


@dataclass
class TokenizerOutput:
    """The ids of a text with a pad at both ends, its phonemes, and the text.

    ``guessed`` lists the words said by rules of spelling, ``skipped`` characters that are not spoken; ``source`` is
    the tokenizer's.
    """

    tokens: list[int]
    phonemes: str
    text: str
    guessed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    source: str = "lexicons"


class KokoroTokenizer:
    """Text to phonemes by lexicons, or by rules of spelling where there are none.

    ``lang`` is "a" (American) or "b" (British English). ``use_misaki`` takes the package misaki instead where it and
    its model en_core_web_sm are installed, with our rules for the words it does not know; ``use_espeak`` the program
    espeak-ng, which must be. ``lexicons`` is a folder with us_gold.json and us_silver.json; by default they are looked
    for beside the voice in the folder ``model``, as :class:`KokoroModel` does. ``vocab`` maps phonemes to ids.

    ``source`` says what is used: "misaki", "espeak-ng", "lexicons", "American lexicons" (for British English, with
    British vowels), or "spelling".
    """

    def __init__(
        self,
        vocab: Mapping[str, int] | None = None,
        lang: str = "a",
        use_misaki: bool = True,
        *,
        lexicons: PathLike | None = None,
        use_espeak: bool = False,
        model: PathLike = "kokoro-82m",
    ) -> None:
        self.lang = lang
        self._vocabulary = Vocabulary(json.dumps({} if vocab is None else {"vocab": dict(vocab)}))
        self.lexicons = find_lexicons(model, lexicons)
        self._phonemizer = Phonemizer(*self.lexicons, lang)
        self._use_espeak = use_espeak
        self._misaki = _misaki(lang) if use_misaki and not use_espeak else None
        ours = "spelling" if not any(self.lexicons) else "lexicons" if lang == "a" else "American lexicons"
        self.source = "espeak-ng" if use_espeak else "misaki" if self._misaki is not None else ours

    def normalize_text(self, text: str) -> str:
        """Numbers, money, times, dates, units, abbreviations, addresses and signs as words."""
        return normalize_text(text)

    def split_sentences(self, text: str) -> list[str]:
        """The sentences with their punctuation."""
        return split_sentences(text)

    def text_to_phonemes(self, text: str) -> str:
        """What is said; ``[word](/phonemes/)`` gives the phonemes of a word."""
        return self.encode(text).phonemes

    def phonemes_to_tokens(self, phonemes: str) -> list[int]:
        """Ids with a pad at both ends. Characters that have no id are left out."""
        return [_PAD, *self._vocabulary.ids(phonemes), _PAD]

    def encode(self, text: str, normalize: bool = True) -> TokenizerOutput:
        """Phonemes and ids of a text. Without ``normalize`` it is taken as words already; misaki always does its own."""
        phonemes, guessed, skipped = self._said(text, normalize)
        return TokenizerOutput(self.phonemes_to_tokens(phonemes), phonemes, text, guessed, skipped, self.source)

    def decode(self, tokens: Sequence[int]) -> str:
        """The phonemes of ids, without pads."""
        return self._vocabulary.phonemes(list(tokens))

    def _said(self, text: str, normalize: bool) -> tuple[str, list[str], list[str]]:
        if self._use_espeak:
            clauses, unspoken = espeak_clauses(text, normalize)
            parts = [
                phonemes_of_espeak(_espeak(part, self.lang), self.lang) if said else part for part, said in clauses
            ]
            return "".join(parts), [], unspoken
        if self._misaki is None:
            said = self._phonemizer(text, normalize)
            return said.phonemes, said.guessed, said.skipped
        guessed: list[str] = []
        skipped: list[str] = []

        def unknown(token: Any) -> tuple[str, int]:
            said = self._phonemizer(token.text)
            if said.phonemes and token.text not in guessed:
                guessed.append(token.text)
            skipped.extend(mark for mark in said.skipped if mark not in skipped)
            return said.phonemes, 2  # as sure as misaki is of the words of eSpeak

        return self._misaki(text, unknown), guessed, skipped


def _misaki(lang: str) -> Callable[[str, Callable[[Any], tuple[str, int]]], str] | None:
    """Text to phonemes by the package misaki; None where it, or what it would fetch from the network, is missing."""
    if any(importlib.util.find_spec(name) is None for name in ("misaki", "en_core_web_sm")):
        return None
    try:
        en: Any = importlib.import_module("misaki.en")
    except ImportError:
        return None
    g2p = en.G2P(trf=False, british=lang == "b", fallback=None, unk="")

    lock = threading.Lock()

    def convert(text: str, unknown: Callable[[Any], tuple[str, int]]) -> str:
        with lock:
            g2p.fallback = unknown
            phonemes: str = g2p(text)[0]
        return phonemes

    return convert


def _espeak(text: str, lang: str) -> str:
    """The IPA of espeak-ng for words without marks."""
    command = ["espeak-ng", "-q", "--ipa", "-v", "en-gb" if lang == "b" else "en-us", "--stdin"]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=True)
    except FileNotFoundError:
        raise FileNotFoundError(
            "use_espeak: the program espeak-ng is not installed; install it, or leave use_espeak out"
        ) from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"use_espeak: espeak-ng ended with {error.returncode}: {error.stderr.strip()}") from None
    return done.stdout
