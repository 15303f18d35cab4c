"""What long and streamed texts sound like where they are cut: no clicks, silence only where punctuation is."""

from __future__ import annotations

import numpy as np
import pytest

from pygpukit.tts import KokoroModel

RATE = 24000


@pytest.fixture(scope="module")
def speaker(assets):
    return KokoroModel.from_pretrained(assets / "kokoro-82m", dtype="float32")._speaker


def silences(samples, longer_than):
    """(begin, length) in seconds of stretches below a hundredth of the peak, those at both ends apart."""
    step = RATE // 200
    levels = np.abs(samples[: samples.size // step * step]).reshape(-1, step).max(axis=1)
    loud = np.flatnonzero(levels >= 0.01 * levels.max())
    gaps = np.diff(loud) - 1
    return [(loud[i] / 200, gaps[i] / 200) for i in np.flatnonzero(gaps / 200 > longer_than)]


def cuts(parts, gaps):
    """The length of the silence at each join."""
    at = np.cumsum([part.size for part in parts])[:-1] / RATE
    return [max([length for begin, length in gaps if begin <= cut <= begin + length], default=0) for cut in at]


@pytest.fixture(scope="module")
def say(speaker):
    """Samples of a text in one piece, those of its pieces of at most `most` phonemes, and these as one."""
    voice = speaker.voice("af_heart")

    def said(text, most):
        whole, script = speaker.script(text), speaker.script(text, most=most)
        assert len(whole) == 1 < len(script)
        parts = [speaker.say(script, voice, piece=i).to_numpy() for i in range(len(script))]
        return speaker.say(whole, voice).to_numpy(), parts, np.concatenate(parts)

    return said


def test_a_cut_without_punctuation_is_not_heard(say):
    whole, parts, joined = say("the dog ran over the hill and then it was seen near the water", 45)
    assert max(cuts(parts, silences(joined, 0.0))) < 0.1
    assert np.abs(np.diff(joined)).max() < 1.5 * np.abs(np.diff(whole)).max()


def test_pauses_are_those_of_the_marks(say):
    whole, parts, joined = say("Good morning, my friend. Look at this.", 15)
    after_comma, after_stop = cuts(parts, silences(joined, 0.0))
    assert after_comma < 0.2 < after_stop < 0.45
    assert np.abs(np.diff(joined)).max() < 1.5 * np.abs(np.diff(whole)).max()


@pytest.mark.parametrize("name", ["af_heart", "am_michael", "bf_emma"])
@pytest.mark.parametrize(
    "text",
    [
        "Where did you put the keys to the car?",
        "She bought twelve eggs, some milk and a loaf of bread; then she went home.",
        "Wait! Is it true? Dr. Smith, of all people, paid 20 dollars: nobody else did.",
    ],
)
def test_silence_is_where_the_marks_are(speaker, name, text):
    ((phonemes, ids),) = speaker.script(text).pieces
    samples, frames, _, _ = speaker.networks.say(ids, speaker.voice(name).style(len(ids)), seed=0)
    ends = np.cumsum(frames) / 40  # seconds, of each id and the pads around them
    assert len(ids) == len(phonemes)
    marks = [(ends[i], ends[i + 1]) for i, c in enumerate(phonemes) if c in ";:,.!?\u2014\u2026"]
    reach, breath = 0.1, 0.2  # the networks breathe between the phrases of a long sentence
    for begin, length in silences(samples.to_numpy(), breath):
        near = [mark for mark in marks if mark[0] < begin + length + reach and begin < mark[1] + reach]
        assert near, f"{length:.2f} s of silence at {begin:.2f} s; marks at {marks}"


def test_a_stream_has_the_pauses_of_its_marks(speaker):
    script, voice = speaker.script("Good morning, my dear friend.", "a", True), speaker.voice("af_heart")
    assert len(script) == 2
    for speed, longest in ((1.0, 0.2), (2.0, 0.12)):
        parts = [speaker.say(script, voice, speed, piece=i).to_numpy() for i in range(2)]
        assert cuts(parts, silences(np.concatenate(parts), 0.0))[0] < longest
