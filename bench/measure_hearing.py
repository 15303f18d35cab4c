"""Ten minutes of speech, 60 different sentences in several voices, written down by Whisper with the compression test on.

    PYGPUKIT_ASSETS=FOLDER python bench/measure.py --out FILE --only hearing

The folder has kokoro-82m and whisper-tiny. Sentences are those of hear_speech.py.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from measure_tts import assets

SECONDS, RATE, PAUSE_S = 600, 16000, 0.5


def measure_hearing(gp: Any, torch: Any, report: Any) -> None:
    """The share of words that are wrong, and the time for ten minutes."""
    import hear_speech
    from pygpukit.asr import WhisperModel
    from pygpukit.tts import KokoroModel, KokoroTokenizer, resample_audio

    model = KokoroModel.from_pretrained(assets() / "kokoro-82m", dtype="float32")
    parts: list[Any] = []
    wanted: list[str] = []
    tokenizer, length, number = KokoroTokenizer(use_misaki=False), 0, 0
    while length < SECONDS * RATE:
        said = hear_speech.say(model, number, number // len(hear_speech.SENTENCES))
        parts += [resample_audio(said.audio, 24000, RATE).to_numpy(), np.zeros(int(PAUSE_S * RATE), np.float32)]
        length += parts[-1].size + parts[-2].size
        wanted += hear_speech.words(hear_speech.SENTENCES[number % len(hear_speech.SENTENCES)], tokenizer)
        number += 1
    sound = np.concatenate(parts)
    ears = WhisperModel.from_pretrained(assets() / "whisper-tiny")
    start = time.perf_counter()
    options: dict[str, Any] = {"compression_ratio_threshold": 2.4, "temperature": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
    text = ears.transcribe(sound, RATE, language="en", **options).text
    took = time.perf_counter() - start
    wrong = hear_speech.distance(wanted, hear_speech.words(text, tokenizer))
    report.add("hearing_10min_wer", wrong / len(wanted), sentences=number, seconds=sound.size / RATE, took_s=took)


GROUPS = {"hearing": measure_hearing}
