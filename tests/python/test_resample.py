"""Resampling: what it keeps, what it takes away, at any two rates."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops.audio import resample


def tone(hz, rate, n):
    return np.sin(2 * np.pi * hz * np.arange(n) / rate)


@pytest.mark.parametrize("rates", [(44100, 16000), (48000, 16000), (8000, 16000), (16000, 44100), (11025, 16000), (3, 7)])
def test_tones_in_the_band_stay(device, rates):
    rate, to = rates
    n = 6000
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
    np.testing.assert_allclose(resample(gp.from_numpy(x), 5, 5).to_numpy(), x, atol=0.5)
    for n in (0, 1, 2):
        assert resample(gp.from_numpy(x[0, :n]), 2, 1).shape == (n // 2,)


def test_refusals(device):
    x = gp.zeros((10,), "float32")
    with pytest.raises(ValueError, match="rate must be"):
        resample(x, 0, 16000)
    with pytest.raises(ValueError, match="ratio of smaller numbers"):
        resample(x, 9999991, 9999973)
    with pytest.raises(TypeError):
        resample(x.astype("float64"), 1, 2)
    with pytest.raises(ValueError):
        resample(gp.zeros((1, 1, 4), "float32"), 1, 2)
