"""Sound that is changed: tempo, pitch, parts, signals from magnitudes; what captures, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from audio_signals import RATE, noise, synthetic

import pygpukit as gp
from pygpukit.ops import audio

DATA = Path(__file__).resolve().parents[1] / "data" / "audio"


def upload(x):
    return gp.from_numpy(np.asarray(x, "f4"))


def tone(hz, seconds=2.0, size=0.5):
    return upload(size * np.sin(2 * np.pi * hz * np.arange(int(RATE * seconds)) / RATE))


def loudest(x):
    """The frequency of the largest peak, to a fraction of a bin, and the amplitude of a tone."""
    y = x.to_numpy()[2000:-2000].astype("f8")
    spectrum = np.abs(np.fft.rfft(y * np.hanning(len(y)), 8 * len(y)))
    return spectrum.argmax() * RATE / (8 * len(y)), np.sqrt(2 * np.mean(y**2))


@pytest.mark.parametrize("n_fft, hop, win", [(512, 160, -1), (400, 100, -1), (2048, 512, -1), (600, 130, 480), (63, 9, 50)])
def test_istft_of_stft(device, rng, n_fft, hop, win):
    x = rng.uniform(-1, 1, (2, 2, 5000)).astype("f4")
    pairs = audio.stft(upload(x), n_fft, hop, win)
    assert pairs.shape == (2, 2, 1 + 5000 // hop, n_fft // 2 + 1, 2) and pairs.dtype.name == "float32"
    back = audio.istft(pairs, hop, win, length=5000, n_fft=n_fft).to_numpy()
    reach = min(5000, 5000 // hop * hop)
    assert np.abs(back - x)[..., :reach].max() < 1e-5
    z = audio.stft(upload(x), n_fft, hop, win, return_complex=True)
    assert audio.istft(z, hop, win, length=5000, n_fft=n_fft).to_numpy().tobytes() == back.tobytes()
    assert np.array_equal(pairs.to_numpy()[..., 1], z.to_numpy().imag)
    for function in (audio.power_spectrum, audio.magnitude_spectrum):
        assert function(pairs).to_numpy().tobytes() == function(z).to_numpy().tobytes()


@pytest.mark.parametrize("hz, steps", [(440, 12), (440, -12), (440, 7), (1000, 3.5), (150, -5), (330, 0)])
def test_a_shifted_tone(device, hz, steps):
    shifted = audio.pitch_shift(tone(hz), RATE, steps)
    assert shifted.shape == (2 * RATE,)
    found, size = loudest(shifted)
    assert abs(found - hz * 2 ** (steps / 12)) < 2
    assert 0.45 < size < 0.55


@pytest.mark.parametrize("rate", [1.5, 0.5, 0.8, 2.0, 1.0])
def test_a_stretched_tone(device, rate):
    stretched = audio.time_stretch(tone(440), rate)
    assert stretched.shape == (round(2 * RATE / rate),)
    found, size = loudest(stretched)
    assert abs(found - 440) < 2 and 0.45 < size < 0.55


def test_stretching_by_one_changes_nothing(device):
    x = synthetic()
    np.testing.assert_allclose(audio.time_stretch(upload(x), 1.0).to_numpy(), x, atol=1e-4)


def test_two_notes_and_a_click_stay_what_they_are(device):
    t = np.arange(3 * RATE) / RATE
    x = 0.3 * np.sin(2 * np.pi * 330 * t) + 0.2 * np.sin(2 * np.pi * 1234 * t)
    y = audio.time_stretch(upload(x), 0.75).to_numpy()[4000:-4000]
    spectrum = np.abs(np.fft.rfft(y * np.hanning(len(y))))
    heights = []
    for hz in (330, 1234):
        near = slice(int((hz - 20) * len(y) / RATE), int((hz + 20) * len(y) / RATE))
        assert abs((spectrum[near].argmax() + near.start) * RATE / len(y) - hz) < 1
        heights.append(spectrum[near].max() / len(y) * 4)
        spectrum[near] = 0
    np.testing.assert_allclose(heights, [0.3, 0.2], rtol=0.1)
    assert spectrum.max() * 4 / len(y) < 0.003
    click = np.zeros(2 * RATE)
    click[RATE : RATE + 8] = 1
    slower = np.abs(audio.time_stretch(upload(click), 0.5).to_numpy())
    assert abs(slower.argmax() - 2 * RATE) < 2048


def test_vocoder_without_locking_is_librosa(device):
    golden = np.load(DATA / "synthetic.npz")
    spectrum = audio.stft(upload(synthetic()), 1024, 256)
    got = audio.phase_vocoder(spectrum, 1.3, 1024, 256, phase_lock=False, return_complex=True).to_numpy()[::9]
    np.testing.assert_allclose(got, golden["vocoder"], atol=1e-3 * np.abs(golden["vocoder"]).max())


def test_griffin_lim_comes_as_near_as_librosa(device):
    golden = np.load(DATA / "synthetic.npz")
    size = audio.magnitude_spectrum(audio.stft(upload(synthetic())))
    found = audio.griffin_lim(size)
    assert found.shape == ((size.shape[0] - 1) * 160,)
    again = audio.magnitude_spectrum(audio.stft(found)).to_numpy()
    error = np.linalg.norm(again - size.to_numpy()) / np.linalg.norm(size.to_numpy())
    assert error < 1.05 * float(golden["griffin_lim_error"])
    assert audio.griffin_lim(size).to_numpy().tobytes() == found.to_numpy().tobytes()
    assert audio.griffin_lim(size, seed=1).to_numpy().tobytes() != found.to_numpy().tobytes()


def test_tones_are_harmonic_and_clicks_percussive(device):
    x = 0.2 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    clicks = np.zeros(RATE)
    clicks[::4000] = 1
    parts = [audio.hpss(audio.magnitude_spectrum(audio.stft(upload(s)))) for s in (x, clicks)]
    (tone_h, tone_p), (click_h, click_p) = [[p.to_numpy()[5:-5].sum() for p in pair] for pair in parts]
    assert tone_h > 20 * tone_p and click_p > 20 * click_h


def test_masks_add_up_and_medians_pass_bad_values_on(device, rng):
    size = rng.uniform(0, 1, (30, 40)).astype("f4")
    harmonic, percussive = audio.hpss(upload(size), 9)
    np.testing.assert_allclose(harmonic.to_numpy() + percussive.to_numpy(), size, atol=1e-6)
    hard = audio.hpss(upload(size), 9, power=float("inf"))
    assert (np.minimum(hard[0].to_numpy(), hard[1].to_numpy()) == 0).all()
    size[12, 20] = np.nan
    got = audio.harmonic(upload(size), 9).to_numpy()
    assert np.isnan(got[12, 20]) and np.isnan(got[9, 20]) and np.isfinite(got[:, :10]).all()
    size[12, 20] = np.inf
    assert np.isfinite(np.delete(audio.harmonic(upload(size), 9).to_numpy().ravel(), 12 * 40 + 20)).all()


def test_onsets_are_where_notes_begin(device):
    x = np.zeros(2 * RATE)
    starts = [0.3, 0.8, 1.2, 1.7]
    for s in starts:
        t = np.arange(RATE // 4) / RATE
        x[int(s * RATE) : int(s * RATE) + len(t)] += np.sin(2 * np.pi * 500 * t) * np.exp(-40 * t)
    strength = audio.onset_strength(upload(x + 1e-4 * noise(len(x))), hop_length=256, n_fft=1024)
    found = audio.onset_detect(strength, hop_length=256)
    assert found.dtype.name == "int64"
    np.testing.assert_allclose(found.to_numpy() * 256 / RATE, starts, atol=0.03)
    batch = gp.stack([strength, strength[::-1]])
    peaks = audio.onset_peaks(batch, hop_length=256).to_numpy()
    assert np.flatnonzero(peaks[0]).tolist() == found.to_numpy().tolist() and peaks[1].any()
    assert not audio.onset_peaks(gp.ones((50,))).to_numpy().any()
    assert not audio.onset_peaks(gp.full((50,), np.nan)).to_numpy().any()
