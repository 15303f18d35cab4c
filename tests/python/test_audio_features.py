"""Features of sound against librosa's and torchaudio's (tools/make_audio_goldens.py), and against NumPy in float64."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from audio_signals import RATE, noise, synthetic

import pygpukit as gp
from pygpukit.ops import audio

DATA = Path(__file__).resolve().parents[1] / "data" / "audio"
STEP = 9  # of tools/make_audio_goldens.py


def every(x):
    return x.to_numpy()[::STEP]


def spectra(x):
    z = audio.stft(x)
    mfcc = audio.mfcc(audio.log_mel_spectrogram(x))
    return {
        "stft": every(audio.stft(x, return_complex=True)),
        "stft_400": every(audio.stft(x, 400, 160, 320, return_complex=True)),
        "mel": every(audio.apply_mel_filterbank(audio.power_spectrum(z), audio.create_mel_filterbank())),
        "mel_slaney": every(audio.mel_spectrogram(x, 400, 160, 40, mel_scale="slaney", norm="slaney")),
        "mfcc": mfcc.to_numpy(),
        "delta": audio.delta(mfcc).to_numpy(),
    }


def measures(x):
    size = audio.magnitude_spectrum(audio.stft(x))
    power = audio.power_spectrum(audio.stft(x))
    centroid = audio.spectral_centroid(size)
    cqt = audio.cqt_magnitude(x)
    parts, apart = audio.hpss(size), audio.hpss(size, 8, 1.5, 2.0)
    envelope = audio.onset_strength(x)
    fine = audio.onset_strength(x, n_fft=1024, hop_length=160, n_mels=64, lag=2, max_size=3)
    return {
        "centroid": centroid.to_numpy(),
        "bandwidth": audio.spectral_bandwidth(size, centroid).to_numpy(),
        "bandwidth_3": audio.spectral_bandwidth(size, centroid, p=3).to_numpy(),
        "rolloff": audio.spectral_rolloff(size).to_numpy(),
        "flatness": audio.spectral_flatness(size).to_numpy(),
        "contrast": audio.spectral_contrast(size).to_numpy(),
        "zero_crossings": audio.zero_crossing_rate(x).to_numpy() * 511 / 512,  # librosa divides by the frame's size
        "autocorrelation": audio.autocorrelation(x, 300).to_numpy(),
        "cqt": every(cqt),
        "chroma": every(audio.chroma_stft(power)),
        "chroma_tuned": every(audio.chroma_stft(power, n_chroma=24, tuning=0.3)),
        "chroma_cqt": every(audio.chroma_cqt(cqt)),
        "harmonic": every(parts[0]),
        "percussive": every(parts[1]),
        "harmonic_apart": every(apart[0]),
        "percussive_apart": every(apart[1]),
        "onset": envelope.to_numpy(),
        "onset_fine": fine.to_numpy(),
        "onset_frames": audio.onset_detect(envelope).to_numpy(),
        "onset_frames_fine": audio.onset_detect(fine, hop_length=160).to_numpy(),
    }


# librosa computes its CQT of resampled signals, which is where the difference comes from; numpy_cqt below has none.
LOOSE = {"cqt": 0.02, "chroma_cqt": 0.04, "contrast": 3e-5, "mfcc": 1e-5, "torch_mfcc": 1e-5, "torch_deltas": 3e-5}


def assert_near(name, got, want):
    assert got.shape == want.shape, name
    if want.dtype.kind == "i":
        assert got.tolist() == want.tolist(), name
    error = np.abs(got - want).max() / np.abs(want).max()
    assert error <= LOOSE.get(name, 2e-6), f"{name}: {error:.3g}"


@pytest.fixture(scope="module")
def recording():
    return np.load(DATA / "speech.npz")


def test_synthetic_sound_as_librosa(device):
    golden = np.load(DATA / "synthetic.npz")
    x = gp.from_numpy(synthetic())
    computed = spectra(x) | measures(x)
    assert set(golden) - set(computed) == {"yin", "vocoder", "griffin_lim_error"}
    for name, got in computed.items():
        assert_near(name, got, golden[name])


def test_recording_as_librosa_and_torchaudio(device, assets, recording):
    with wave.open(str(assets / "audio/jfk.wav")) as file:
        pcm = np.frombuffer(file.readframes(3 * RATE), "<i2")
    x = gp.from_numpy((pcm / 32768).astype("f4"))
    mel = audio.mel_spectrogram(x)
    mfcc = audio.mfcc(audio.log_mel(mel, 1e-6))
    computed = {
        "torch_mel": every(mel),
        "torch_mfcc": every(mfcc),
        "torch_deltas": every(audio.delta(mfcc, width=4)),
        **spectra(x),
        **measures(x),
    }
    for name in set(recording) - {"yin", "torch_centroid"}:
        assert_near(name, computed[name], recording[name])
    heard = np.isfinite(recording["torch_centroid"])
    np.testing.assert_allclose(computed["centroid"][heard], recording["torch_centroid"][heard], rtol=1e-5)
    assert (computed["centroid"][~heard] == 0).all()
    pitch = audio.detect_pitch_yin_frames(x).to_numpy()
    voiced = pitch > 0
    away = np.abs(pitch[voiced] / recording["yin"][voiced] - 1)
    assert voiced.sum() > 50 and np.median(away) < 0.01 and np.mean(away < 0.05) > 0.9


@pytest.mark.parametrize(
    "name, arguments, options",
    [
        ("htk", (40,), {}),
        ("slaney", (30, 1000, 22050, 50, 9000), {"mel_scale": "slaney", "norm": "slaney"}),
        ("torch_htk_slaney", (40,), {"norm": "slaney"}),
    ],
)
def test_filter_banks(device, name, arguments, options):
    want = np.load(DATA / "banks.npz")[name]
    np.testing.assert_allclose(audio.create_mel_filterbank(*arguments, **options).to_numpy(), want, atol=2e-8)


def test_no_row_of_a_filter_bank_is_empty(device):
    bank = audio.create_mel_filterbank(128, 64).to_numpy()
    assert bank.shape == (128, 33) and (bank.sum(axis=1) > 0).all()


@pytest.mark.parametrize(
    "n_fft, n_mels, options",
    [
        (400, 80, {}),
        (64, 128, {}),
        (1001, 7, {"f_min": 100.0, "f_max": 12000.0}),
        (1, 3, {}),
        (512, 40, {"mel_scale": "slaney", "norm": "slaney", "f_max": 7000.0}),
    ],
)
def test_mel_spectrogram_is_its_parts(device, rng, n_fft, n_mels, options):
    x = gp.from_numpy(rng.normal(size=(2, 3000)).astype("f4"))
    bank = audio.create_mel_filterbank(n_mels, n_fft, **options)
    want = audio.apply_mel_filterbank(audio.power_spectrum(audio.stft(x, n_fft, 160)), bank).to_numpy()
    got = audio.mel_spectrogram(x, n_fft, 160, n_mels, **options).to_numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
    logs = audio.log_mel_spectrogram(x, n_fft, 160, n_mels, **options).to_numpy()
    np.testing.assert_allclose(logs, np.log(got + np.float32(1e-10)), rtol=1e-5, atol=1e-5)


def numpy_cqt(x, f_min, n_bins, per_octave, hop):
    ratio = 2 ** (1 / per_octave)
    q = (ratio**2 + 1) / (ratio**2 - 1)
    result = np.zeros((1 + len(x) // hop, n_bins), complex)
    for k in range(n_bins):
        f = f_min * ratio**k
        length = q * RATE / f
        times = np.arange(np.floor(-length / 2), np.floor(length / 2)).astype(int)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(len(times)) / len(times))
        wave_of_bin = window / window.sum() * np.exp(-2j * np.pi * f / RATE * times) * np.sqrt(length)
        for t in range(len(result)):
            inside = (times + t * hop >= 0) & (times + t * hop < len(x))
            result[t, k] = (x[times[inside] + t * hop] * wave_of_bin[inside]).sum()
    return result


def test_cqt_as_defined(device, rng):
    x = rng.normal(size=3001).astype("f4")
    want = numpy_cqt(x.astype("f8"), 60.0, 30, 10, 450)
    got = audio.cqt(gp.from_numpy(x), RATE, 450, 60.0, 30, 10, return_complex=True)
    np.testing.assert_allclose(got.to_numpy(), want, atol=3e-6 * np.abs(want).max())
    pairs = audio.cqt(gp.from_numpy(x), RATE, 450, 60.0, 30, 10).to_numpy()
    assert pairs.shape == (*want.shape, 2) and np.array_equal(pairs[..., 0], got.to_numpy().real)


def numpy_yin(x, frame, hop, low, high, threshold):
    window = frame // 2
    shortest, longest = int(RATE // high), min(int(np.ceil(RATE / low)), frame - window - 1)
    found = []
    for begin in range(0, len(x) - frame + 1, hop):
        y = x[begin : begin + frame].astype("f8")
        d = np.array([((y[:window] - y[k : k + window]) ** 2).sum() for k in range(longest + 1)])
        running = np.cumsum(d[1:])
        c = np.concatenate([[1], np.where(running > 0, d[1:] * np.arange(1, longest + 1) / np.maximum(running, 1e-300), 1)])
        pitch = 0.0
        for k in range(shortest, longest + 1):
            after = c[k + 1] if k < longest else c[k]
            dips = c[k] < after if k == shortest else c[k] < c[k - 1] and c[k] <= after
            if dips and c[k] < threshold:
                shift = 0.0
                if shortest < k < longest:
                    bend, slope = c[k - 1] + after - 2 * c[k], (after - c[k - 1]) / 2
                    shift = -slope / bend if abs(slope) < abs(bend) else 0.0
                pitch = RATE / (k + shift)
                break
        found.append(pitch)
    return np.array(found)


def test_yin_as_defined(device):
    x = synthetic()
    got = audio.detect_pitch_yin_frames(gp.from_numpy(x), RATE, 1024, 256, 50, 500, 0.1).to_numpy()
    want = numpy_yin(x, 1024, 256, 50, 500, 0.1)
    assert (got > 0).sum() > 50
    np.testing.assert_allclose(got, want, rtol=1e-4)


@pytest.mark.parametrize("hz", [82.4, 110.0, 220.5, 440.0, 490.0])
def test_pitch_of_a_tone(device, hz):
    t = np.arange(8000) / RATE
    tone = gp.from_numpy((0.3 * np.sin(2 * np.pi * hz * t)).astype("f4"))
    pitch = audio.detect_pitch_yin(tone)
    assert isinstance(pitch, float) and abs(pitch / hz - 1) < 2e-3
    assert audio.detect_pitch_yin(gp.from_numpy(noise(8000).astype("f4"))) == 0.0
    assert audio.detect_pitch_yin(gp.zeros((8000,))) == 0.0


def test_a_note_is_in_its_class(device):
    t = np.arange(RATE) / RATE
    tone = gp.from_numpy(np.sin(2 * np.pi * 440 * t).astype("f4"))
    chroma = audio.chroma_stft(audio.power_spectrum(audio.stft(tone, 2048))).to_numpy()
    assert (chroma[10:-10].argmax(axis=1) == 9).all() and chroma.max() == 1
    cqt = audio.cqt_magnitude(tone)
    assert (cqt.to_numpy()[30:-30].argmax(axis=1) == 45).all()
    assert (audio.chroma_cqt(cqt).to_numpy()[30:-30].argmax(axis=1) == 9).all()
    wide = audio.cqt_magnitude(tone, bins_per_octave=36, n_bins=252)
    assert (audio.chroma_cqt(wide, 36).to_numpy()[30:-30].argmax(axis=1) == 9).all()


def test_small_things_as_defined(device, rng):
    mel = rng.uniform(0, 2, (3, 5, 7)).astype("f4")
    given = gp.from_numpy(mel)
    np.testing.assert_allclose(audio.log_mel(given, 1e-3).to_numpy(), np.log(mel + 1e-3), atol=1e-6)
    np.testing.assert_allclose(audio.to_decibels(given).to_numpy(), 10 * np.log10(mel + 1e-10), atol=1e-5)
    double = np.zeros_like(mel)
    padded = np.pad(mel, ((0, 0), (3, 3), (0, 0)), mode="edge").astype("f8")
    for n in (1, 2, 3):
        double += (n * (padded[:, 3 + n : 8 + n] - padded[:, 3 - n : 8 - n]) / 28).astype("f4")
    np.testing.assert_allclose(audio.delta(given, 1, 3).to_numpy(), double, atol=1e-6)
    np.testing.assert_allclose(
        audio.delta(given, 2, 3).to_numpy(), audio.delta(audio.delta(given, 1, 3), 1, 3).to_numpy(), atol=1e-7
    )
    x = rng.normal(size=500).astype("f4")
    want = np.correlate(x.astype("f8"), x.astype("f8"), "full")[499:]
    np.testing.assert_allclose(audio.autocorrelation(gp.from_numpy(x), 500).to_numpy(), want, atol=2e-4)


def test_roll_off_and_contrast_of_noise_and_tone(device, rng):
    power = np.ones((2, 101), "f4")
    power[1] = 0
    power[1, 40] = 1
    given = gp.from_numpy(power)
    assert audio.spectral_rolloff(given, 200).to_numpy().tolist() == [85.0, 40.0]
    np.testing.assert_allclose(audio.spectral_centroid(given, 200).to_numpy(), [50, 40], rtol=1e-6)
    np.testing.assert_allclose(audio.spectral_flatness(given).to_numpy()[0], 1, rtol=1e-6)
    assert audio.spectral_flatness(given).to_numpy()[1] < 1e-6


SIGNAL_CALLS = {
    "stft": lambda x: audio.stft(x, 200, 50),
    "mel_spectrogram": lambda x: audio.mel_spectrogram(x, 200, 50, 20),
    "autocorrelation": lambda x: audio.autocorrelation(x, 77),
    "detect_pitch_yin_frames": lambda x: audio.detect_pitch_yin_frames(x, frame_size=512),
    "zero_crossing_rate": lambda x: audio.zero_crossing_rate(x, 100, 33),
    "cqt": lambda x: audio.cqt(x, f_min=200, n_bins=24),
    "onset_strength": lambda x: audio.onset_strength(x, RATE, 512, 100, 20),
    "time_stretch": lambda x: audio.time_stretch(x, 0.8, 256, 64),
    "pitch_shift": lambda x: audio.pitch_shift(x, RATE, -3, 256, 64),
}
SPECTRUM_CALLS = {
    "spectral_centroid": audio.spectral_centroid,
    "spectral_rolloff": audio.spectral_rolloff,
    "spectral_flatness": audio.spectral_flatness,
    "spectral_contrast": audio.spectral_contrast,
    "chroma_stft": audio.chroma_stft,
    "harmonic": lambda x: audio.harmonic(x, 5),
    "percussive": lambda x: audio.percussive(x, 5),
    "mfcc": audio.mfcc,
    "delta": audio.delta,
    "griffin_lim": lambda x: audio.griffin_lim(x, 3, 64),
}


@pytest.mark.parametrize("name", [*SIGNAL_CALLS, *SPECTRUM_CALLS])
def test_a_row_is_as_alone_and_views_are_read(device, rng, name):
    if name in SIGNAL_CALLS:
        call, shape = SIGNAL_CALLS[name], (2, 3, 2500)
    else:
        call, shape = SPECTRUM_CALLS[name], (2, 3, 20, 129)
    x = rng.uniform(0, 1, shape).astype("f4")
    whole = call(gp.from_numpy(x)).to_numpy()
    for i in range(2):
        for j in range(3):
            assert call(gp.from_numpy(x[i, j])).to_numpy().tobytes() == whole[i, j].tobytes()
    turned = gp.from_numpy(np.ascontiguousarray(x.T)).T
    assert call(turned).to_numpy().tobytes() == whole.tobytes()
