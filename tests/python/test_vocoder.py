"""Harmonic source and polar spectra against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit._core import _audio

MIX = [0.5, -0.25, 0.125, 1.0]
BIAS = -0.03


def reference_source(f0, mix, bias, noise, rate=24000.0, step=300):
    n = len(f0)
    harmonics = np.arange(1, len(mix) + 1)[:, None]
    turns = harmonics * f0 / rate
    sums = step * np.cumsum(turns - np.floor(turns), axis=1)
    u = np.maximum(0, (np.arange(n * step) + 0.5) / step - 0.5)
    left = u.astype(int)
    right = np.minimum(left + 1, n - 1)
    phase = sums[:, left] + (u - left) * (sums[:, right] - sums[:, left])
    voiced = np.repeat(f0 > 10, step)
    values = np.where(voiced, 0.1 * np.sin(2 * np.pi * phase) + 0.003 * noise.T, 0.1 / 3 * noise.T)
    return np.tanh(bias + np.asarray(mix) @ values)


@pytest.mark.parametrize("n", [1, 2, 33, 400])
@pytest.mark.parametrize("noisy", [False, True])
def test_harmonic_source(device, rng, n, noisy):
    f0 = np.where(rng.random(n) < 0.3, rng.normal(size=n), rng.uniform(80, 400, n)).astype("f4")
    noise = rng.normal(size=(n * 300, len(MIX))).astype("f4") if noisy else None
    got = _audio.harmonic_source(gp.from_numpy(f0), MIX, BIAS, None if noise is None else gp.from_numpy(noise))
    want = reference_source(f0.astype("f8"), MIX, BIAS, np.zeros((n * 300, len(MIX))) if noise is None else noise)
    np.testing.assert_allclose(got.to_numpy(), want, rtol=0, atol=2e-6)


def test_harmonic_source_stays_exact_after_minutes(device):
    f0 = np.full(20000, 399.7, "f4")  # 250 s: 10^5 turns
    got = _audio.harmonic_source(gp.from_numpy(f0), [1.0]).to_numpy()
    want = reference_source(f0.astype("f8"), [1.0], 0.0, np.zeros((f0.size * 300, 1)))
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


def test_harmonic_source_of_strides_and_into_out(device, rng):
    f0 = rng.uniform(80, 400, 14).astype("f4")
    out = gp.zeros((2 * 7 * 300,))
    half = out[::2]
    got = _audio.harmonic_source(gp.from_numpy(f0)[::2], MIX, BIAS, out=half)
    assert got is half
    plain = _audio.harmonic_source(gp.from_numpy(np.ascontiguousarray(f0[::2])), MIX, BIAS)
    np.testing.assert_array_equal(half.to_numpy(), plain.to_numpy())
    assert not out[1::2].to_numpy().any()


def test_harmonic_source_errors(device):
    f0 = gp.zeros((4,))
    with pytest.raises(ValueError, match="mix must have 1 to 16 weights"):
        _audio.harmonic_source(f0, [])
    with pytest.raises(ValueError, match=r"noise must have shape \[1200, 1\]"):
        _audio.harmonic_source(f0, [1.0], 0.0, gp.zeros((1200, 2)))
    with pytest.raises(ValueError, match="step must be positive"):
        _audio.harmonic_source(f0, [1.0], step=0)
    with pytest.raises(TypeError, match="f0"):
        _audio.harmonic_source(gp.zeros((4,), dtype="float64"), [1.0])


@pytest.mark.parametrize("shape", [(1, 2), (5, 11), (100, 11)])
def test_magnitude_and_phase(device, rng, shape):
    z = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype("c8")
    z[:, 0] = z[:, 0].real
    z[:, -1] = z[:, -1].real - 1e-9j  # a residue that must not turn the phase
    got = _audio.magnitude_phase(gp.from_numpy(z)).to_numpy()
    exact = z.astype("c16")
    exact[:, -1] = exact[:, -1].real
    np.testing.assert_allclose(got, np.concatenate([np.abs(exact).T, np.angle(exact).T]), rtol=1e-6, atol=1e-6)
    assert (got[shape[1]][z[:, 0].real < 0] > 3).all()


@pytest.mark.parametrize("shape", [(2, 1), (22, 5), (22, 100)])
def test_spectrum_from_logs(device, rng, shape):
    x = rng.normal(size=shape).astype("f4")
    got = _audio.spectrum_from_logs(gp.from_numpy(x)).to_numpy()
    half = shape[0] // 2
    exact = x.astype("f8")
    want = (np.exp(exact[:half]) * np.exp(1j * np.sin(exact[half:]))).T
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    strided = _audio.spectrum_from_logs(gp.from_numpy(np.ascontiguousarray(x.T)).T)
    np.testing.assert_array_equal(strided.to_numpy(), got)


def test_polar_spectra_errors(device):
    with pytest.raises(ValueError, match="two rows for each bin"):
        _audio.spectrum_from_logs(gp.zeros((3, 4)))
    with pytest.raises(TypeError, match="spectrum"):
        _audio.magnitude_phase(gp.zeros((3, 4)))


def test_captured(device, rng):
    f0, noise = (
        gp.from_numpy(rng.uniform(80, 400, 12).astype("f4")),
        gp.from_numpy(rng.normal(size=(3600, 4)).astype("f4")),
    )
    source, spectrum, samples = gp.empty((3600,)), gp.empty((721, 11), dtype="complex64"), gp.empty((3600,))
    parts = gp.empty((22, 721))

    def run():
        _audio.harmonic_source(f0, MIX, BIAS, noise, out=source)
        _audio.stft(source, 20, 5, out=spectrum)
        _audio.magnitude_phase(spectrum, out=parts)
        _audio.spectrum_from_logs(parts, out=spectrum)
        _audio.istft(spectrum, 20, 5, length=3600, out=samples)

    run()
    eager = samples.to_numpy()
    graph = gp.CudaGraph()
    with graph.capture():
        run()
    gp.copy_to(gp.zeros((3600,)), samples)
    graph.replay()
    np.testing.assert_array_equal(samples.to_numpy(), eager)
    f0 -= 20
    graph.replay()
    run_again = samples.to_numpy()
    run()
    np.testing.assert_array_equal(samples.to_numpy(), run_again)
    assert not np.array_equal(run_again, eager)
