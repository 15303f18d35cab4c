"""The English front end of pygpukit.tts; internal."""

from typing import SupportsIndex

import pygpukit.typing


class Pronunciation:
    """What Phonemizer says about a text."""

    @property
    def phonemes(self) -> str:
        """Phonemes, with the punctuation that makes pauses."""

    @property
    def text(self) -> str:
        """The normalised text."""

    @property
    def guessed(self) -> list[str]:
        """Words of no lexicon, said by the rules of spelling."""

    @property
    def skipped(self) -> list[str]:
        """Characters that are not spoken: emoji, other scripts."""

class Phonemizer:
    """English text to phonemes, with lexicons or by the rules of spelling."""

    def __init__(self, gold: str = '', silver: str = '', lang: str = 'a') -> None:
        """Paths of the lexicons; an empty one is left out."""

    def __call__(self, text: str, normalize: bool = True) -> Pronunciation:
        """The pronunciation of a text."""

def find_lexicons(model: pygpukit.typing.PathLike, folder: pygpukit.typing.PathLike | None | None = None) -> tuple[str, str]:
    """Paths of the gold and the silver lexicon, empty for none."""

def espeak_clauses(text: str, normalize: bool = True) -> tuple[list[tuple[str, bool]], list[str]]:
    """Words to be said (True) and what stays (False), and what is skipped."""

def phonemes_of_espeak(ipa: str, lang: str = 'a') -> str:
    """The IPA of espeak-ng in Kokoro's alphabet."""

def normalize_text(text: str) -> str:
    """
    Numbers, money, times, dates, units, abbreviations, addresses and signs as words.
    """

def split_sentences(text: str) -> list[str]:
    """The sentences of a text with their punctuation."""

def cut_phonemes(phonemes: str, limit: SupportsIndex = 510) -> list[str]:
    """Pieces of at most `limit` characters, cut where a pause is."""
