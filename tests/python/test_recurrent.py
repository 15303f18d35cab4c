"""Recurrences, step by step in float64."""

from __future__ import annotations

import numpy as np
import pytest
from opcase import FLOATS, download, round_to, upload

import pygpukit as gp
from pygpukit.scheduler.execution import context_session, create_context, reset

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


# Small ones have quads of units that end past the last one; 257 and on need more blocks, the largest read weights anew
# in each step.
@pytest.mark.parametrize("hidden", [1, 7, 33, 100, 256, 300, 512, 528])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_lstm_of_any_hidden_and_batch(device, rng, hidden, dtype):
    steps, batches = (4, (0, 1, 2, 3, 7, 16, 33)) if hidden < 50 else (3, (1, 5))
    most = batches[-1]
    (x,) = make(rng, dtype, (most, steps, 6), scale=1)
    weights = make(rng, dtype, (4 * hidden, 6), (4 * hidden, hidden), scale=1 / np.sqrt(hidden))
    states = make(rng, dtype, (most, hidden), (most, hidden))
    given = [upload(v, dtype) for v in (x, *weights)]
    h0, c0 = (upload(v, dtype) for v in states)
    whole = gp.lstm_forward(*given, h0=h0, c0=c0)
    assert_close(whole, lstm(x, *weights, 0.0, 0.0, *states, dtype=dtype), dtype)
    for batch in batches[:-1]:
        part = gp.lstm_forward(given[0][:batch], *given[1:], h0=h0[:batch], c0=c0[:batch])
        assert bits(part) == bits(a[:batch] for a in whole)
    both = gp.lstm_bidirectional(*given, None, None, *given[1:], None, None)
    back = gp.lstm_forward(*given, reverse=True)
    assert bits([both[0][:, :, hidden:], both[1][1], both[2][1]]) == bits(back)


def test_lstm_may_take_tf32_for_its_inputs(device, rng):
    x, *weights = (upload(v, "float32") for v in (*make(rng, "float32", (3, 5, 64)), *layer(rng, "float32", 64, 24)))
    exact, rounded = (gp.lstm_forward(x, *weights, use_tf32=tf32) for tf32 in (False, True))
    for a, b in zip(exact, rounded, strict=True):
        np.testing.assert_allclose(download(a), download(b), rtol=0, atol=5e-3)
    assert x.device.kind != "cpu" or bits(exact) == bits(rounded)
    ways = [*weights, *weights]
    both = [gp.lstm_bidirectional(x, *ways, use_tf32=tf32) for tf32 in (False, True)]
    assert bits([both[0][0][:, :, :24]]) == bits(exact[:1]) and bits([both[1][0][:, :, :24]]) == bits(rounded[:1])


@pytest.fixture
def part(device):
    """A context with a tenth of the device."""
    reset()
    yield create_context("part", compute=0.1)
    reset()


def test_lstm_in_a_part_of_the_device(part, rng):
    """Other kernels may serve there, of the same order of sums."""
    for hidden in (100, 300):
        given = [upload(v, "float32") for v in make(rng, "float32", (3, 3, 6), (4 * hidden, 6), (4 * hidden, hidden))]
        whole = bits(gp.lstm_forward(*given))
        with context_session(part):
            assert bits(gp.lstm_forward(*given)) == whole


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
    halves = [a.astype("float16") for a in (x, w_ih, w_hh)]
    with pytest.raises(RuntimeError, match="lstm_forward: use_tf32 needs float32 arrays, got float16"):
        gp.lstm_forward(*halves, use_tf32=True)
    with pytest.raises(ValueError, match="out must be a tuple"):
        gp.lstm_forward(x, w_ih, w_hh, b, b, out=x)
    state = gp.zeros((2, 5))
    with pytest.raises(ValueError, match="share memory"):
        gp.lstm_forward(x, w_ih, w_hh, b, b, out=(gp.zeros((2, 3, 5)), state, state))
    with pytest.raises(ValueError, match=r"lstm_bidirectional: h0 must have shape \[2, 2, 5\]"):
        gp.lstm_bidirectional(x, w_ih, w_hh, b, b, w_ih, w_hh, b, b, h0=state)


def softplus(x):
    return np.log1p(np.exp(x))


def silu(x):
    return x * sigmoid(x)


def causal_conv1d(x, w, bias, state):
    x = np.concatenate([state, x], axis=2)
    taps, length = w.shape[1], x.shape[2] - w.shape[1] + 1
    out = sum(w[:, j, None] * x[:, :, j : j + length] for j in range(taps)) + bias[:, None]
    return out, x[:, :, length:]


@pytest.mark.parametrize("dtype", FLOATS)
def test_causal_conv1d(device, rng, dtype):
    for batch, channels, length, taps in [(1, 1, 1, 1), (2, 5, 40, 4), (1, 33, 2, 4), (3, 4, 1, 16), (2, 3, 0, 4)]:
        x, w, bias, past = make(
            rng, dtype, (batch, channels, length), (channels, taps), (channels,), (batch, channels, taps - 1), scale=1
        )
        given = [upload(v, dtype) for v in (x, w, bias)]
        expected, last = causal_conv1d(x, w, bias, past)
        state = upload(past, dtype)
        assert_close([gp.causal_conv1d(*given, state=state)], [expected], dtype)
        np.testing.assert_array_equal(download(state), last)
        alone = causal_conv1d(x, w, 0 * bias, 0 * past)[0]
        assert_close([gp.causal_conv1d(*given[:2], silu=True)], [silu(alone)], dtype)


def scan(x, delta, a, b, c, d=0.0, z=None, bias=0.0, plus=False, h=None):
    h = np.zeros((x.shape[0], *a.shape)) if h is None else h
    delta = delta + np.reshape(bias, (-1, 1))
    delta = softplus(delta) if plus else delta
    out = np.zeros(x.shape)
    for t in range(x.shape[2]):
        step = delta[:, :, t, None]
        h = np.exp(step * a) * h + step * b[:, None, :, t] * x[:, :, t, None]
        out[:, :, t] = (h * c[:, None, :, t]).sum(2)
    out += np.reshape(d, (-1, 1)) * x
    return (out if z is None else out * silu(z)), h


@pytest.mark.parametrize("dtype", FLOATS)
def test_selective_scan(device, rng, dtype):
    wide = "float64" if dtype == "float64" else "float32"
    for batch, channels, length, states in [
        (1, 1, 1, 1),
        (2, 5, 40, 16),
        (1, 9, 7, 33),
        (2, 3, 0, 4),
        (1, 2, 3, 256),
        (2, 37, 101, 20),
        (1, 3, 64, 64),
        (1, 2, 33, 65),
    ]:
        x, z, delta = make(rng, dtype, *3 * ((batch, channels, length),), scale=1)
        b, c = make(rng, dtype, *2 * ((batch, states, length),))
        d, bias = make(rng, dtype, (channels,), (channels,))
        a, past = (
            round_to(-rng.uniform(0.1, 2, (channels, states)), wide),
            make(rng, wide, (batch, channels, states))[0],
        )
        expected, last = scan(x, delta, a, b, c, d, z, bias, True, past)
        given = [upload(x, dtype), upload(delta, dtype), upload(a, wide), upload(b, dtype), upload(c, dtype)]
        more = [upload(v, dtype) for v in (d, z, bias)]
        state = upload(past, wide)
        got = gp.selective_scan(*given, *more, True, state=state)
        scale = np.maximum(1, np.abs(expected).max(initial=1))
        np.testing.assert_allclose(download(got), expected, rtol=0, atol=2 * scale * TOLERANCE[dtype])
        np.testing.assert_allclose(download(state), last, rtol=1e-5, atol=2e-5)
        plain = scan(x, np.abs(delta), a, b, c)[0]
        got = gp.selective_scan(given[0], upload(np.abs(delta), dtype), *given[2:])
        scale = np.maximum(1, np.abs(plain).max(initial=1))
        np.testing.assert_allclose(download(got), plain, rtol=0, atol=2 * scale * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_scans_may_be_cut_and_batched(device, rng, dtype):
    x, delta = (upload(np.abs(v), dtype) for v in make(rng, dtype, (3, 6, 9), (3, 6, 9)))
    b, c, w = (upload(v, dtype) for v in make(rng, dtype, (3, 16, 9), (3, 16, 9), (6, 4)))
    a = upload(-rng.uniform(0.1, 2, (6, 16)), "float32")
    whole, last = gp.zeros((3, 6, 16)), gp.zeros((3, 6, 3), dtype=dtype)
    scanned = gp.selective_scan(x, delta, a, b, c, state=whole)
    convolved = gp.causal_conv1d(x, w, state=last)
    state, past = gp.zeros((3, 6, 16)), gp.zeros((3, 6, 3), dtype=dtype)
    parts, pieces = [], []
    for cut in (slice(0, 1), slice(1, 3), slice(3, 9)):
        at = (slice(None), slice(None), cut)
        parts.append(gp.selective_scan(x[at], delta[at], a, b[at], c[at], state=state))
        pieces.append(gp.causal_conv1d(x[at], w, state=past))
    assert bits([gp.concat(parts, axis=2), state]) == bits([scanned, whole])
    assert bits([gp.concat(pieces, axis=2), past]) == bits([convolved, last])
    assert bits([gp.selective_scan(x[1:2], delta[1:2], a, b[1:2], c[1:2])]) == bits([scanned[1:2]])
    assert bits([gp.causal_conv1d(x[1:2], w)]) == bits([convolved[1:2]])
    turned = [v.T.contiguous().T for v in (x, delta, a, b, c)]
    out = gp.full((9, 6, 3), 7, dtype=dtype).T
    assert gp.selective_scan(*turned, out=out) is out and bits([out]) == bits([scanned])
    over = x + 0
    gp.causal_conv1d(over, w, out=over)
    assert bits([over]) == bits([convolved])


@pytest.mark.parametrize("states", [3, 16, 32, 50, 70])
def test_scans_go_on_from_any_step(device, rng, states):
    """Steps come in turns of 32 where they can: a cut elsewhere changes nothing."""
    x, delta, z = (upload(np.abs(v), "float32") for v in make(rng, "float32", *3 * ((2, 5, 100),)))
    b, c = (upload(v, "float32") for v in make(rng, "float32", *2 * ((2, states, 100),)))
    a = upload(-rng.uniform(0.1, 2, (5, states)), "float32")
    last, state = gp.zeros((2, 5, states)), gp.zeros((2, 5, states))
    whole = gp.selective_scan(x, delta, a, b, c, z=z, delta_softplus=True, state=last)
    parts = []
    for cut in (slice(0, 7), slice(7, 71), slice(71, 72), slice(72, 100)):
        at = (slice(None), slice(None), cut)
        given = x[at], delta[at], a, b[at], c[at]
        parts.append(gp.selective_scan(*given, z=z[at], delta_softplus=True, state=state))
    assert bits([gp.concat(parts, axis=2), state]) == bits([whole, last])


def test_scans_are_checked(device):
    x, w = gp.zeros((2, 6, 10)), gp.zeros((6, 4))
    with pytest.raises(ValueError, match=r"causal_conv1d: state must have shape \[2, 6, 3\]"):
        gp.causal_conv1d(x, w, state=gp.zeros((2, 6, 4)))
    with pytest.raises(ValueError, match="1 to 16 taps"):
        gp.causal_conv1d(x, gp.zeros((6, 17)))
    with pytest.raises(ValueError, match="state shares memory"):
        gp.causal_conv1d(x, w, state=x[:, :, :3])
    with pytest.raises(ValueError, match="cannot be written"):
        gp.causal_conv1d(x, w, state=gp.broadcast_to(gp.zeros((3,)), (2, 6, 3)))
    a, b = gp.zeros((6, 16)), gp.zeros((2, 16, 10))
    with pytest.raises(ValueError, match=r"selective_scan: C must have shape \[2, 16, 10\]"):
        gp.selective_scan(x, x, a, b, gp.zeros((2, 15, 10)))
    with pytest.raises(gp.errors.DTypeError, match="A must have dtype float32"):
        gp.selective_scan(*(v.astype("bfloat16") for v in (x, x, a, b, b)))
    with pytest.raises(ValueError, match="1 to 256 states"):
        gp.selective_scan(x, x, gp.zeros((6, 257)), b, b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_hostile_sequences(device, rng, dtype):
    """Gates saturate, NaN stays in its own item from its step on, and no other item sees it."""
    (x,) = make(rng, dtype, (4, 9, 6), scale=1)
    weights = layer(rng, dtype, 6, 8)
    x[0, 3, 2], x[1, 4], x[2, 5, 1] = np.nan, 60000.0, np.inf
    given = [upload(v, dtype) for v in (x, *weights)]
    got = [download(a) for a in gp.lstm_forward(*given)]
    with np.errstate(all="ignore"):
        expected = lstm(x, *weights, dtype=dtype)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        keep = ~np.isnan(b)
        np.testing.assert_allclose(a[keep], b[keep], rtol=0, atol=2 * TOLERANCE[dtype])
    assert np.isfinite(got[0][0, :3]).all() and np.isnan(got[0][0, 3:]).all()
    assert np.isfinite(got[0][[1, 3]]).all()
    alone = [download(a) for a in gp.lstm_forward(given[0][3:], *given[1:])]
    for a, b in zip(got, alone, strict=True):
        np.testing.assert_array_equal(a[3:], b)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_hostile_scans(device, rng, dtype):
    u, delta = make(rng, dtype, (2, 3, 12), (2, 3, 12), scale=1)
    b, c = make(rng, dtype, (2, 4, 12), (2, 4, 12))
    a = upload(-np.abs(rng.normal(size=(3, 4))), "float32")
    clean = [upload(u, dtype), upload(delta, dtype), a, upload(b, dtype), upload(c, dtype)]
    whole = download(gp.selective_scan(*clean, delta_softplus=True))
    for value in (np.nan, np.inf):
        dirty = u.copy()
        dirty[1, 2, 5] = value
        got = download(gp.selective_scan(upload(dirty, dtype), *clean[1:], delta_softplus=True))
        np.testing.assert_array_equal(got[0], whole[0])
        np.testing.assert_array_equal(got[1, :2], whole[1, :2])
        np.testing.assert_array_equal(got[1, 2, :5], whole[1, 2, :5])
        assert not np.isfinite(got[1, 2, 5:]).any()
    # A step so long that the state is forgotten; softplus of huge numbers is the number, of lowest ones 0.
    for step, state in ((80.0, "forgotten"), (-80.0, "kept")):
        far = delta.copy()
        far[:, :, 6] = step
        got = download(gp.selective_scan(clean[0], upload(far, dtype), *clean[2:], delta_softplus=True))
        assert np.isfinite(got).all(), state
    x, w = make(rng, dtype, (2, 5, 20), (5, 4), scale=1)
    clean = download(gp.causal_conv1d(upload(x, dtype), upload(w, dtype)))
    x[1, 3, 7] = np.nan
    got = download(gp.causal_conv1d(upload(x, dtype), upload(w, dtype)))
    assert np.isnan(got[1, 3, 7:11]).all()
    got[1, 3, 7:11] = clean[1, 3, 7:11]
    np.testing.assert_array_equal(got, clean)
