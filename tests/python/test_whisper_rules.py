"""Whisper's rules as masks on the device, against the same rules in plain Python, and the step of a text."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit._core import _asr
from pygpukit.errors import DTypeError, ShapeError

# A small vocabulary in Whisper's order: 40 text tokens, end, start, ..., no_timestamps, 31 times.
END, NO_TIMES, BEGIN, VOCAB = 40, 48, 49, 80
TOKENS = {"end_of_text": END, "no_timestamps": NO_TIMES, "timestamp_begin": BEGIN}
NEVER = [3, 7, 41, 42, 43, 44, 45, 46, 47]
NEVER_FIRST = [5, END]


def bits():
    words = np.zeros((2, (VOCAB + 31) // 32), "uint32")
    for row, ids in enumerate((NEVER + NEVER_FIRST, NEVER)):
        for i in ids:
            words[row, i // 32] |= np.uint32(1 << i % 32)
    return gp.from_numpy(words.view("int32"))


def expected(logits, text, timestamps, max_initial=10):
    logits = logits.astype("float64").copy()
    forbid = NEVER if text else NEVER + NEVER_FIRST
    logits[forbid] = -np.inf
    if not timestamps:
        return logits
    logits[NO_TIMES] = -np.inf
    times = [t >= BEGIN for t in text]
    last, before = bool(times) and times[-1], len(times) < 2 or times[-2]
    if last and before:
        logits[BEGIN:] = -np.inf
    elif last:
        logits[:END] = -np.inf
    said = [t for t in text if t >= BEGIN]
    if said:
        logits[BEGIN : said[-1] + (0 if last and not before else 1)] = -np.inf
    if not text:
        logits[:BEGIN] = -np.inf
        logits[BEGIN + max_initial + 1 :] = -np.inf
    with np.errstate(divide="ignore"):
        if np.log(np.exp(logits[BEGIN:]).sum()) > logits[:BEGIN].max():
            logits[:BEGIN] = -np.inf
    return logits


def state(text, position=3, limit=20):
    times = [t >= BEGIN for t in text]
    last, before = not times or times[-1], len(times) < 2 or times[-2]
    latest = next((t for t in reversed(text) if t >= BEGIN), -1)
    return [text[-1] if text else 0, position, 0, 0, len(text), int(last) + 2 * int(before), latest, limit]


TEXTS = [[], [BEGIN + 2], [BEGIN + 2, 1], [BEGIN, 1, 2, BEGIN + 9], [BEGIN, 1, BEGIN + 9, BEGIN + 9], [1, 2],
         [BEGIN, 4, BEGIN + 30, BEGIN + 30], [1, BEGIN + 5]]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("timestamps", [True, False])
def test_masks(device, dtype, timestamps, rng):
    only_times = 0
    for scale in (0.3, 3.0):  # all times together beat any text with the first
        values = rng.standard_normal((len(TEXTS), VOCAB)).astype("float32") * scale
        logits = gp.from_numpy(values).astype(dtype)
        given = logits.to_numpy(dtype="float32")
        texts = gp.from_numpy(np.array([state(t) for t in TEXTS], "int32").T.copy())
        _asr.whisper_mask(logits, texts, bits(), max_initial_timestamp=10, timestamps=timestamps, **TOKENS)
        found = logits.to_numpy(dtype="float32")
        for row, text in enumerate(TEXTS):
            want = expected(given[row], text, timestamps)
            np.testing.assert_array_equal(found[row], want.astype("float32"), err_msg=f"{text} {scale}")
            only_times += int(len(text) > 0 and np.isinf(want[:BEGIN]).all())
    assert only_times > 0 or not timestamps


def test_masks_of_a_wide_row(device, rng):
    """More tokens than threads, and rows that lie apart."""
    vocab, begin = 5000, 4000
    values = rng.standard_normal((2, vocab)).astype("float32")
    logits = gp.from_numpy(np.pad(values, [(0, 0), (0, 24)]))[:, :vocab]
    texts = gp.from_numpy(np.array([[1, 3, 0, 0, 1, 2, -1, 20]] * 2, "int32").T.copy())
    nothing = gp.zeros((2, (vocab + 31) // 32), dtype="int32")
    _asr.whisper_mask(logits, texts, nothing, end_of_text=3990, no_timestamps=3999, timestamp_begin=begin)
    found = logits.to_numpy()
    assert np.isinf(found[:, :begin]).all() and (found[:, begin:] == values[:, begin:]).all()


def test_a_text_goes_on(device):
    """What the device makes of a text is what follows from its tokens; a text that ended stays as it is."""
    texts = gp.from_numpy(np.array([state([], limit=limit) for limit in (20, 20, 7, 20)], "int32").T.copy())
    said = [[], [], [], []]
    ended = [False] * 4
    steps = [[BEGIN, 1, BEGIN + 4, BEGIN + 4, 2], [BEGIN, 1, END, 9, 9], [2, 3, 4, 5, 6], [1, -1, 2, 3, 4]]
    for step in zip(*steps, strict=True):
        _asr.whisper_advance(texts, gp.from_numpy(np.array(step, "int32")), **TOKENS)
        fields = texts.to_numpy().T
        for row, token in enumerate(step):
            if not ended[row] and token not in (END, -1):
                said[row].append(token)
                want = state(said[row], 3 + len(said[row]), [20, 20, 7, 20][row])
                ended[row] = want[1] + 1 >= want[7]
                assert fields[row].tolist()[4:] == want[4:] and fields[row].tolist()[:2] == want[:2]
            else:
                ended[row] = True
            assert fields[row].tolist()[2:4] == ([-1, -1] if ended[row] else [0, 0])
    assert [len(text) for text in said] == [5, 2, 3, 1]


def test_bad_arguments(device):
    logits = gp.zeros((2, VOCAB))
    texts = gp.zeros((8, 2), dtype="int32")
    for change, error, words in [
        ({"logits": gp.zeros((3, VOCAB))}, ShapeError, "row for each text"),
        ({"logits": logits.astype("float64")}, DTypeError, "float16, bfloat16 or float32"),
        ({"texts": gp.zeros((7, 2), dtype="int32")}, ShapeError, r"\[8, rows\]"),
        ({"suppressed": gp.zeros((2, 2), dtype="int32")}, ShapeError, "suppressed"),
        ({"timestamp_begin": VOCAB + 1}, ValueError, "rules"),
    ]:
        given = {"logits": logits, "texts": texts, "suppressed": bits(), **TOKENS, **change}
        with pytest.raises(error, match=words):
            _asr.whisper_mask(**given)
