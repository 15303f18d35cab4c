"""Recurrences, step by step in float64."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import FLOATS, download, round_to, upload

import pygpukit as gp

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6, "float64": 1e-13}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, w_ih, w_hh, b_ih=0.0, b_hh=0.0, h=None, c=None, reverse=False, dtype="float64"):
    batch, steps, _ = x.shape
    hidden = w_hh.shape[1]
    h = np.zeros((batch, hidden)) if h is None else h
    c = np.zeros((batch, hidden)) if c is None else c
    out = np.zeros((batch, steps, hidden))
    for t in range(steps)[::-1] if reverse else range(steps):
        i, f, g, o = np.split(x[:, t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
        c = round_to(sigmoid(f) * c + sigmoid(i) * np.tanh(g), dtype)
        h = round_to(sigmoid(o) * np.tanh(c), dtype)
        out[:, t] = h
    return out, h, c


def make(rng, dtype, *shapes, scale=0.4):
    return [round_to(rng.normal(size=shape) * scale, dtype) for shape in shapes]


def layer(rng, dtype, inputs, hidden):
    return make(rng, dtype, (4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))


def assert_close(got, expected, dtype):
    for a, b in zip(got, expected, strict=True):
        assert a.dtype.name == dtype and a.shape == b.shape
        np.testing.assert_allclose(download(a), b, rtol=0, atol=TOLERANCE[dtype])


def bits(arrays):
    return [a.contiguous().to_numpy().tobytes() for a in arrays]


SIZES = [(1, 1, 1, 1), (2, 7, 5, 3), (9, 4, 33, 17), (1, 30, 64, 48), (3, 0, 4, 5), (0, 3, 4, 5), (17, 2, 0, 8)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_lstm_forward(device, rng, dtype):
    for batch, steps, inputs, hidden in SIZES:
        (x,) = make(rng, dtype, (batch, steps, inputs), scale=1)
        weights, states = layer(rng, dtype, inputs, hidden), make(rng, dtype, (batch, hidden), (batch, hidden))
        given = [upload(v, dtype) for v in (x, *weights)]
        h0, c0 = (upload(v, dtype) for v in states)
        assert_close(gp.lstm_forward(*given), lstm(x, *weights, dtype=dtype), dtype)
        assert_close(gp.lstm_forward(*given[:3]), lstm(x, *weights[:2], dtype=dtype), dtype)
        for reverse in (False, True):
            expected = lstm(x, *weights, *states, reverse=reverse, dtype=dtype)
            assert_close(gp.lstm_forward(*given, h0, c0, reverse), expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_lstm_bidirectional(device, rng, dtype):
    for batch, steps, inputs, hidden in SIZES[1:4]:
        (x,) = make(rng, dtype, (batch, steps, inputs), scale=1)
        ways = [layer(rng, dtype, inputs, hidden) for _ in range(2)]
        states = make(rng, dtype, (2, batch, hidden), (2, batch, hidden))
        forward = lstm(x, *ways[0], states[0][0], states[1][0], dtype=dtype)
        backward = lstm(x, *ways[1], states[0][1], states[1][1], True, dtype=dtype)
        expected = [np.concatenate([forward[0], backward[0]], axis=2)]
        expected += [np.stack([f, b]) for f, b in zip(forward[1:], backward[1:], strict=True)]
        given = [upload(v, dtype) for v in (x, *ways[0], *ways[1])]
        h0, c0 = (upload(v, dtype) for v in states)
        got = gp.lstm_bidirectional(*given, h0=h0, c0=c0)
        bare = [*given[:3], None, None, *given[5:7], None, None]
        assert_close([gp.lstm_bidirectional(*bare)[1][0]], [lstm(x, *ways[0][:2], dtype=dtype)[1]], dtype)
        assert_close(got, expected, dtype)
        alone = gp.lstm_forward(given[0], *given[5:], h0[1], c0[1], reverse=True)
        assert bits([got[0][:, :, hidden:], got[1][1], got[2][1]]) == bits(alone)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_lstm_may_be_cut_and_batched(device, rng, dtype):
    x, *weights = (upload(v, dtype) for v in (*make(rng, dtype, (11, 9, 20)), *layer(rng, dtype, 20, 24)))
    out, h_n, c_n = gp.lstm_forward(x, *weights)
    first = gp.lstm_forward(x[:, :4], *weights)
    rest = gp.lstm_forward(x[:, 4:], *weights, *first[1:])
    assert bits([gp.concat([first[0], rest[0]], axis=1), *rest[1:]]) == bits([out, h_n, c_n])
    assert bits(gp.lstm_forward(x[7:8], *weights)) == bits([out[7:8], h_n[7:8], c_n[7:8]])
    threads = gp.num_threads()
    try:
        gp.set_num_threads(1)
        assert bits(gp.lstm_forward(x, *weights)) == bits([out, h_n, c_n])
    finally:
        gp.set_num_threads(threads)


def test_lstm_in_any_layout_and_place(device, rng):
    x, *weights = make(rng, "float32", (3, 6, 8), (32, 8), (32, 8), (32,), (32,))
    states = make(rng, "float32", (3, 8), (3, 8))
    plain = [upload(v, "float32") for v in (x, *weights, *states)]
    expected = bits(gp.lstm_forward(*plain))
    turned = [upload(v.T, "float32").T for v in (x, *weights, *states)]
    backwards = [
        upload(np.flip(v), "float32")[tuple(slice(None, None, -1) for _ in v.shape)] for v in (x, *weights, *states)
    ]
    assert bits(gp.lstm_forward(*turned)) == expected and bits(gp.lstm_forward(*backwards)) == expected
    out = (gp.full((8, 6, 3), 7.0).T, gp.full((8, 3), 7.0).T, gp.full((3, 16), 7.0)[:, ::2])
    assert gp.lstm_forward(*plain, out=out) is out
    assert bits(out) == expected
    # Over x and the states themselves, over each other's states, and over a weight.
    for pick in ((0, 5, 6), (0, 6, 5)):
        given = [a + 0 for a in plain]
        out = tuple(given[i] for i in pick)
        gp.lstm_forward(*given, out=out)
        assert bits(out) == expected
    given = [a + 0 for a in plain]
    out = (given[0], given[2][:3], given[6])
    gp.lstm_forward(*given, out=out)
    assert bits(out) == expected


def test_lstm_is_checked(device):
    x, w_ih, w_hh, b = gp.zeros((2, 3, 4)), gp.zeros((20, 4)), gp.zeros((20, 5)), gp.zeros((20,))
    with pytest.raises(ValueError, match=r"lstm_forward: W_ih must have shape \[20, 4\]"):
        gp.lstm_forward(x, gp.zeros((20, 3)), w_hh, b, b)
    with pytest.raises(ValueError, match="W_hh must have shape"):
        gp.lstm_forward(x, w_ih, gp.zeros((19, 5)), b, b)
    with pytest.raises(ValueError, match=r"h0 must have shape \[2, 5\]"):
        gp.lstm_forward(x, w_ih, w_hh, b, b, gp.zeros((5,)))
    with pytest.raises(gp.errors.DTypeError, match="b_hh must have dtype float32"):
        gp.lstm_forward(x, w_ih, w_hh, b, b.astype("float16"))
    with pytest.raises(ValueError, match="out must be a tuple"):
        gp.lstm_forward(x, w_ih, w_hh, b, b, out=x)
    state = gp.zeros((2, 5))
    with pytest.raises(ValueError, match="share memory"):
        gp.lstm_forward(x, w_ih, w_hh, b, b, out=(gp.zeros((2, 3, 5)), state, state))
    with pytest.raises(ValueError, match=r"lstm_bidirectional: h0 must have shape \[2, 2, 5\]"):
        gp.lstm_bidirectional(x, w_ih, w_hh, b, b, w_ih, w_hh, b, b, h0=state)
