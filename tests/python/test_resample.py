"""Resampling: what it keeps, what it takes away, at any two rates."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops.audio import resample


def tone(hz, rate, n):
    return np.sin(2 * np.pi * hz * np.arange(n) / rate)


# Of the last ones the filter of every phase would be too much to keep.
RATES = [(44100, 16000), (48000, 16000), (8000, 16000), (16000, 44100), (11025, 16000), (3, 7)]
RATES += [(44100, 44101), (16000, 15999), (9999991, 9999973), (192000, 7919), (7919, 16001)]


@pytest.mark.parametrize("rates", RATES)
def test_tones_in_the_band_stay(device, rates):
    rate, to = rates
    n = max(6000, 1000 * rate // to)
    band = 0.9 * min(rate, to) / 2
    x = sum(tone(part * band, rate, n) for part in (0.013, 0.21, 0.5, 1.0)) / 4
    y = resample(gp.from_numpy(x.astype("float32")), rate, to).to_numpy().astype("float64")
    assert y.shape == (n * to // rate,)
    expected = sum(tone(part * band, to, y.size) for part in (0.013, 0.21, 0.5, 1.0)) / 4
    inner = slice(y.size // 8, -y.size // 8)
    error = np.sqrt(np.mean((y - expected)[inner] ** 2) / np.mean(expected[inner] ** 2))
    assert 20 * np.log10(error) < -90


def test_what_lies_above_is_taken_away(device):
    x = tone(8300, 44100, 20000).astype("float32")
    y = resample(gp.from_numpy(x), 44100, 16000).to_numpy()
    assert np.abs(y[500:-500]).max() < 1e-4


def test_rows_and_lengths(device, rng):
    x = rng.standard_normal((3, 1001)).astype("float32")
    together = resample(gp.from_numpy(x), 44100, 16000)
    assert together.shape == (3, 363)
    for i in range(3):
        assert (resample(gp.from_numpy(x)[i], 44100, 16000).to_numpy() == together.to_numpy()[i]).all()
    out = gp.empty((3, 363), "float32")
    assert resample(gp.from_numpy(x.T.copy()).T, 44100, 16000, out=out) is out
    assert (out.to_numpy() == together.to_numpy()).all()
    assert resample(gp.from_numpy(x), 5, 5).to_numpy().tobytes() == x.tobytes()
    out = gp.empty((3, 1000), "float32")
    irregular = resample(gp.from_numpy(x), 16000, 15999, out=out).to_numpy()
    for i in range(3):
        assert (resample(gp.from_numpy(x)[i], 16000, 15999).to_numpy() == irregular[i]).all()
    for n in (0, 1, 2):
        assert resample(gp.from_numpy(x[0, :n]), 2, 1).shape == (n // 2,)


def test_refusals(device):
    x = gp.zeros((10,), "float32")
    with pytest.raises(ValueError, match="rate must be"):
        resample(x, 0, 16000)
    with pytest.raises(ValueError, match="rate must be 1 to 10000000"):
        resample(x, 1, 10_000_001)
    with pytest.raises(TypeError):
        resample(x.astype("float64"), 1, 2)
    with pytest.raises(ValueError):
        resample(gp.zeros((1, 1, 4), "float32"), 1, 2)


@pytest.mark.parametrize("rates", [(44100, 16000), (44100, 44101), (16000, 16000)])
def test_captured(device, rng, rates):
    """With out nothing is allocated once the filter is there, and a replay reads new values."""
    x, other = rng.standard_normal((2, 1, 4000)).astype("float32")
    given = gp.from_numpy(x)
    out = resample(given, *rates)
    with gp.CudaGraph().capture() as graph:
        resample(given, *rates, out=out)
    given[...] = gp.from_numpy(other)
    graph.replay()
    assert out.to_numpy().tobytes() == resample(gp.from_numpy(other), *rates).to_numpy().tobytes()


def test_a_filter_made_in_a_capture(device, rng):
    """It has the bits of one that was there before."""
    given = gp.from_numpy(rng.standard_normal(2000).astype("float32"))
    for rates in ((31, 17), (99991, 99989)):
        out = gp.empty((2000 * rates[1] // rates[0],))
        with gp.CudaGraph().capture() as graph:
            resample(given, *rates, out=out)
        graph.replay()
        assert out.to_numpy().tobytes() == resample(given, *rates).to_numpy().tobytes()
