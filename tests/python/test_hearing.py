"""Whisper understands what Kokoro says: some sentences of bench/hear_speech.py, which has sixty."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from pygpukit.asr import WhisperModel
from pygpukit.tts import KokoroModel


def test_six_sentences_are_understood(assets, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    hear_speech = importlib.import_module("hear_speech")
    monkeypatch.delitem(sys.modules, "hear_speech")
    voice = KokoroModel.from_pretrained(assets / "kokoro-82m", dtype="float32")
    heard = hear_speech.hear(voice, WhisperModel.from_pretrained(assets / "whisper-tiny"), (3, 11, 15, 33, 34, 59))
    assert heard.total > 35
    assert heard.faults() == []


def test_words_are_compared(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    hear_speech = importlib.import_module("hear_speech")
    monkeypatch.delitem(sys.modules, "hear_speech")
    assert len(hear_speech.SENTENCES) == len(set(hear_speech.SENTENCES)) == 60
    assert hear_speech.distance(["a", "b", "c"], ["a", "x", "c", "d"]) == 2
    assert hear_speech.distance([], ["a", "b"]) == 2
    bad = hear_speech.Heard(errors=2, total=10, worst=0.6, loudest=1.1)
    assert len(bad.faults()) == 3
