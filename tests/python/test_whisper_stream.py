"""Speech that is still going on: what a stream gives stays, and nothing is lost or said twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.asr import WhisperModel
from pygpukit.ops.audio import read_wav

WORDS = "and so my fellow americans ask not what your country can do for you ask what you can do for your country"


@pytest.fixture(scope="module")
def model(assets):
    with gp.device("cpu"):
        return WhisperModel.from_pretrained(assets / "whisper-tiny")


@pytest.fixture(scope="module")
def jfk(assets):
    return read_wav(assets / "audio" / "jfk.wav")[0].to_numpy()[0]


@pytest.fixture(autouse=True)
def on_cpu():
    with gp.device("cpu"):
        yield


def plain(text):
    return " ".join("".join(c if c.isalnum() or c == "'" else " " for c in text.lower()).split())


def test_words_of_a_stream_stay(model, jfk):
    """Speech in pieces of 2.5 s: what is given never changes, and all of it is given once."""
    stream = model.stream(language="en")
    assert stream.update() == ([], "")
    given, pending = [], []
    for begin in range(0, jfk.size, 40000):
        stream.push(gp.from_numpy(jfk[begin:begin + 40000]))
        words, rest = stream.update()
        given += words
        pending.append(rest)
    assert given and stream.update() == ([], pending[-1]), "nothing new without new sound"
    words, rest = stream.finish()
    given += words
    assert rest == "" and stream.finish() == ([], "") and stream.duration == 11.0
    assert plain("".join(word.text for word in given)) == WORDS
    times = [time for word in given for time in (word.start, word.end)]
    assert all(b >= a for a, b in itertools.pairwise(times)) and times[-1] <= 11.0


def test_long_stream(model, jfk):
    """Sound that was written down is forgotten; times go on."""
    stream = model.stream(language="en")
    quiet = [np.zeros(int(seconds * 16000), "float32") for seconds in (1.0, 6.0, 1.0)]
    sound = np.concatenate([part for gap in quiet for part in (jfk, gap)])
    given = []
    for begin in range(0, sound.size, 120000):
        stream.push(gp.from_numpy(sound[begin:begin + 120000]))
        given += stream.update()[0]
    given += stream.finish()[0]
    assert plain("".join(word.text for word in given)) == " ".join([WORDS] * 3)
    assert given[-1].end == pytest.approx(11 * 3 + 7, abs=1.0)


def test_a_pause_is_forgotten(model, jfk):
    """What an update costs does not grow with a pause after speech; what is said behind it is heard."""
    stream = model.stream(language="en")
    noise = np.random.default_rng(3).standard_normal(16000 * 70).astype("float32") * 1e-5
    given, held = [], []
    for sound in (jfk, *np.split(noise, 14)):
        stream.push(sound)
        given += stream.update()[0]
        held.append(stream.held)
    assert plain("".join(word.text for word in given)) == WORDS
    assert max(held) < 20 and max(held[-8:]) <= 10, held
    assert stream.duration == pytest.approx(81.0)
    stream.push(jfk[:35000])
    rest, _ = stream.finish()
    assert plain("".join(word.text for word in rest)).startswith("and so my fellow americans")
    assert rest[0].end > 80.5 and all(b.start >= a.end for a, b in itertools.pairwise([*given, *rest]))


def test_stream_is_bounded_without_any_agreement(model):
    """Sound in which no two updates agree: never more than a window and what came since is held."""
    stream = model.stream(language="en")
    rng = np.random.default_rng(5)
    for _ in range(9):
        stream.push((rng.standard_normal(16000 * 6) * 0.2).astype("float32"))
        stream.update()
        assert stream.held <= 36


def test_stream_takes_arrays_of_any_kind(model, jfk):
    stream = model.stream(language="en")
    stream.push(jfk[:8000])
    stream.push(gp.from_numpy(jfk[:8000]))
    stream.push((jfk[:8000] * 32767).astype("int16"))
    stream.push(np.stack([jfk[:8000]] * 2))
    assert stream.duration == 2.0
    with pytest.raises(ValueError, match="shape"):
        stream.push(np.zeros((2, 2, 2), "float32"))
