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


@pytest.mark.parametrize(("frames", "bins", "hop", "length"), [
    (1, 2, 1, 1), (1, 11, 5, 3), (7, 11, 5, 30), (121, 11, 5, 600), (2001, 11, 5, 10000), (9, 8, 3, 40), (5, 6, 20, 90),
])  # fmt: skip
def test_samples_from_logs(device, rng, frames, bins, hop, length):
    x = rng.normal(size=(2 * bins, frames)).astype("f4")
    got = _audio.samples_from_logs(gp.from_numpy(x), hop, length).to_numpy()
    n_fft = 2 * (bins - 1)
    exact = x.astype("f8")
    spectrum = (np.exp(exact[:bins]) * np.exp(1j * np.sin(exact[bins:]))).T
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    total, weight = np.zeros((2, frames * hop + n_fft + length))
    for m, frame in enumerate(np.fft.irfft(spectrum, n_fft, axis=1)):
        total[m * hop : m * hop + n_fft] += window * frame
        weight[m * hop : m * hop + n_fft] += window**2
    want = np.where(weight > 1e-11, total / np.maximum(weight, 1e-11), 0)[n_fft // 2 : n_fft // 2 + length]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * max(1, np.abs(want).max()))


def test_samples_from_logs_are_istft_of_the_spectrum(device, rng):
    x = gp.from_numpy(rng.normal(size=(22, 61)).astype("f4"))
    apart = _audio.istft(_audio.spectrum_from_logs(x), 20, 5, length=300).to_numpy()
    np.testing.assert_allclose(_audio.samples_from_logs(x, 5, 300).to_numpy(), apart, rtol=1e-5, atol=1e-5)
    out = gp.zeros((600,))
    assert _audio.samples_from_logs(x, 5, 300, out=out[::2]).shape == (300,)
    np.testing.assert_array_equal(out[::2].to_numpy(), _audio.samples_from_logs(x, 5, 300).to_numpy())


def test_noise_of_a_seed_is_that_of_random_normal(device, rng):
    f0 = gp.from_numpy(np.where(rng.random(40) < 0.5, 0, 200).astype("f4"))
    for seed, offset in ((0, 0), (2**64 - 1, 3)):
        gp.random.seed(seed)
        for _ in range(offset + 1):
            noise = gp.random.normal((40 * 300, len(MIX)), dtype="float32")
        given = _audio.harmonic_source(f0, MIX, BIAS, noise).to_numpy()
        made = _audio.harmonic_source(f0, MIX, BIAS, seed=seed, offset=offset).to_numpy()
        np.testing.assert_array_equal(made, given)


def test_polar_spectra_errors(device):
    with pytest.raises(ValueError, match="samples_from_logs: hop_length must be positive"):
        _audio.samples_from_logs(gp.zeros((4, 4)), 0, 4)
    with pytest.raises(ValueError, match="length must not be negative"):
        _audio.samples_from_logs(gp.zeros((4, 4)), 1, -1)
    with pytest.raises(ValueError, match="two rows for each of at least two bins"):
        _audio.samples_from_logs(gp.zeros((2, 4)), 1, 4)
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
    parts, fused = gp.empty((22, 721)), gp.empty((3600,))

    def run():
        _audio.harmonic_source(f0, MIX, BIAS, noise, out=source)
        _audio.stft(source, 20, 5, out=spectrum)
        _audio.magnitude_phase(spectrum, out=parts)
        _audio.spectrum_from_logs(parts, out=spectrum)
        _audio.istft(spectrum, 20, 5, length=3600, out=samples)
        _audio.samples_from_logs(parts, 5, 3600, out=fused)

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
