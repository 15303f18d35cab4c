"""Features of sound: what they refuse, and what they make of sound that nobody should send."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops import audio, audio_features

ONE = ("stft", "mel_spectrogram", "log_mel_spectrogram", "zero_crossing_rate", "cqt", "cqt_magnitude", "onset_strength")
SIGNALS = (*ONE, "detect_pitch_yin", "detect_pitch_yin_frames")
SPECTRA = ("spectral_centroid", "spectral_rolloff", "spectral_flatness", "spectral_contrast", "chroma_stft", "mfcc")
FRAMES = ("harmonic", "percussive", "hpss", "delta", "griffin_lim")


def call(name, x, **options):
    more = {"autocorrelation": (1,), "time_stretch": (1.5,), "pitch_shift": (16000, 2.0)}.get(name, ())
    return getattr(audio_features, name)(x, *more, **options)


@pytest.mark.parametrize("name", [*SIGNALS, "autocorrelation", "time_stretch", "pitch_shift"])
def test_signals_that_are_none(device, name):
    with pytest.raises(ValueError, match=f"{name}: audio must have at least one sample, got \\[0\\]"):
        call(name, gp.zeros((0,)))
    with pytest.raises(ValueError, match=f"{name}: audio must have (dtype )?float32"):
        call(name, gp.zeros((1000,), dtype="float64"))
    with pytest.raises(ValueError, match=f"{name}: audio must have shape"):
        call(name, gp.zeros(()))
    with pytest.raises(TypeError, match=f"{name}: audio"):
        call(name, np.zeros(1000, "f4"))
    with pytest.raises(TypeError, match=name):
        call(name, None)


@pytest.mark.parametrize("name", [*ONE, "autocorrelation", "time_stretch", "pitch_shift"])
def test_one_sample(device, name):
    result = call(name, gp.full((1,), 0.5))
    assert np.isfinite(result.to_numpy()).all()


@pytest.mark.parametrize("name", [*SPECTRA, *FRAMES])
def test_spectra_that_are_none(device, name):
    argument = {"mfcc": "log_mel_input", "delta": "features", "griffin_lim": "magnitude"}.get(name, "s")
    with pytest.raises(ValueError, match=f"{name}: {argument}"):
        call(name, gp.zeros((5, 33), dtype="float16"))
    with pytest.raises(ValueError, match=f"{name}: {argument}"):
        call(name, gp.zeros((), dtype="float32"))
    if name in FRAMES:
        with pytest.raises(ValueError, match=f"{name}: .* must have shape"):
            call(name, gp.zeros((33,)))


@pytest.mark.parametrize("name", [*SPECTRA, "harmonic", "percussive", "delta"])
def test_no_frames(device, name):
    assert call(name, gp.zeros((0, 65))).shape[0] == 0


BAD = [
    ("stft", {"n_fft": 0}, "n_fft must be at least 1"),
    ("stft", {"hop_length": 0}, "hop_length must be at least 1"),
    ("stft", {"win_length": 513}, "win_length must be -1 or between 1 and n_fft"),
    ("mel_spectrogram", {"n_mels": 0}, "n_mels must be at least 1"),
    ("mel_spectrogram", {"n_fft": -1}, "n_fft must be at least 1"),
    ("mel_spectrogram", {"f_min": 9000.0}, "f_max must be above f_min"),
    ("mel_spectrogram", {"f_min": float("nan")}, "f_min must not be negative"),
    ("mel_spectrogram", {"mel_scale": "bark"}, "mel_scale must be htk or slaney, got bark"),
    ("mel_spectrogram", {"norm": "l2"}, "norm must be None or slaney"),
    ("log_mel_spectrogram", {"eps": -1.0}, "eps must not be negative"),
    ("zero_crossing_rate", {"frame_size": 1}, "frame_size must be at least 2"),
    ("zero_crossing_rate", {"hop_size": 0}, "hop_size must be at least 1"),
    ("detect_pitch_yin_frames", {"f_min": 600.0}, "f_max must be above f_min"),
    ("detect_pitch_yin_frames", {"f_max": 9000.0}, "f_max must be at most half of the sample rate"),
    ("detect_pitch_yin_frames", {"frame_size": 60}, "frame_size must be at least 68 for this f_max"),
    ("detect_pitch_yin_frames", {"threshold": 0.0}, "threshold must be positive"),
    ("detect_pitch_yin_frames", {"sample_rate": -1}, "sample_rate must be positive"),
    ("cqt", {"n_bins": 100}, "n_bins must keep the highest bin below half"),
    ("cqt", {"n_bins": 2**62}, "n_bins must keep the highest bin below half"),
    ("cqt", {"f_min": 0.0}, "f_min must be positive"),
    ("cqt", {"f_min": 1e-6, "n_bins": 2}, "f_min must need windows of less"),
    ("cqt", {"bins_per_octave": 0}, "bins_per_octave must be at least 1"),
    ("onset_strength", {"lag": 0}, "lag must be at least 1"),
    ("onset_strength", {"max_size": 129}, "max_size must be between 1 and n_mels"),
    ("time_stretch", {"n_fft": 1}, "n_fft must be at least 2"),
    ("pitch_shift", {"hop_length": 0}, "hop_length must be between 1 and n_fft"),
    ("time_stretch", {"hop_length": 2049}, "hop_length must be between 1 and n_fft"),
    ("spectral_rolloff", {"roll_percent": 1.0}, "roll_percent must be between 0 and 1"),
    ("spectral_contrast", {"n_bands": 7}, "n_bands must keep f_min"),
    ("spectral_contrast", {"n_bands": 0}, "n_bands must be between 1 and 15"),
    ("spectral_contrast", {"alpha": 0.0}, "alpha must be above 0"),
    ("spectral_contrast", {"f_min": 10.0}, "n_bands must leave a bin"),
    ("chroma_stft", {"n_chroma": 0}, "n_chroma must be between 1 and 1024"),
    ("chroma_stft", {"tuning": float("inf")}, "tuning must be finite"),
    ("mfcc", {"n_mfcc": 34}, "n_mfcc must be between 1 and the number of mel bands, 33"),
    ("delta", {"order": 0}, "order must be between 1 and 8"),
    ("delta", {"width": 0}, "width must be between 1 and 65536"),
    ("harmonic", {"kernel_size": 0}, "kernel_size must be between 1 and 65536"),
    ("percussive", {"margin": 0.5}, "margin must be at least 1"),
    ("hpss", {"power": 0.0}, "power must be positive"),
    ("griffin_lim", {"n_iter": -1}, "n_iter must be between 0 and 100000"),
    ("griffin_lim", {"n_iter": 2**62}, "n_iter must be between 0 and 100000"),
    ("griffin_lim", {"momentum": 1.0}, "momentum must be at least 0 and below 1"),
    ("griffin_lim", {"win_length": 65}, "win_length must be -1 or between 1 and n_fft"),
]


@pytest.mark.parametrize("name, options, message", BAD, ids=[f"{name}-{next(iter(o))}-{i}" for i, (name, o, _) in enumerate(BAD)])
def test_arguments_that_are_refused(device, name, options, message):
    signal = name in SIGNALS or name in ("time_stretch", "pitch_shift")
    with pytest.raises(ValueError, match=message):
        call(name, gp.ones((3000,)) if signal else gp.ones((5, 33)), **options)


def test_more_arguments_that_are_refused(device):
    x, spectrum = gp.ones((3000,)), gp.ones((5, 33))
    for run, message in (
        (lambda: audio.autocorrelation(x, 0), "max_lag must be between 1 and the number of samples, 3000"),
        (lambda: audio.autocorrelation(x, 3001), "max_lag must be between"),
        (lambda: audio.time_stretch(x, 0.0), "rate must be between 0.01 and 100"),
        (lambda: audio.time_stretch(x, float("nan")), "rate must be between"),
        (lambda: audio.pitch_shift(x, 16000, 49), "n_steps must be between -48 and 48"),
        (lambda: audio.pitch_shift(x, 0, 1), "sample_rate must be positive"),
        (lambda: audio.detect_pitch_yin(gp.ones((67,))), "audio must have at least 68 samples"),
        (lambda: audio.detect_pitch_yin(gp.ones((2, 3000))), "detect_pitch_yin: audio must be 1D"),
        (lambda: audio.apply_mel_filterbank(spectrum, gp.ones((4, 32))), "mel_filterbank must have shape .n_mels, 33."),
        (lambda: audio.spectral_bandwidth(spectrum, gp.ones((4,))), "centroids must have shape .5., got .4."),
        (lambda: audio.spectral_bandwidth(spectrum, gp.ones((5,)), p=0), "p must be positive"),
        (lambda: audio.chroma_cqt(spectrum, 18), "bins_per_octave must be a multiple of n_chroma, 12"),
        (lambda: audio.istft(gp.ones((5, 33))), "stft_output must be complex64, or float32"),
        (lambda: audio.istft(audio.stft(x), n_fft=100), "n_fft / 2 . 1 = 51 bins"),
        (lambda: audio.istft(audio.stft(x), length=-2), "length must be -1 or a number of samples"),
        (lambda: audio.phase_vocoder(audio.stft(x), 1.0), "n_fft / 2 . 1 = 1025 bins"),
        (lambda: audio.griffin_lim(gp.ones((1, 33))), "magnitude must have at least 2 frames"),
        (lambda: audio.onset_detect(spectrum), "onset_detect: onset_envelope must have shape .frames."),
        (lambda: audio.onset_peaks(x, delta=float("nan")), "delta must be finite"),
        (lambda: audio.create_mel_filterbank(0), "create_mel_filterbank: n_mels must be at least 1"),
        (lambda: audio.stft(x, out=gp.zeros((3, 257, 2))), "stft: out must have shape"),
        (lambda: audio.mel_spectrogram(x, out=gp.zeros((19, 80), dtype="float16")), "mel_spectrogram: out"),
    ):
        with pytest.raises(ValueError, match=message):
            run()
    for huge in (2**40, 2**60):
        with pytest.raises((ValueError, MemoryError)):
            audio.create_mel_filterbank(huge)
        with pytest.raises((ValueError, MemoryError)):
            audio.stft(x, huge)
        with pytest.raises((ValueError, MemoryError)):
            audio.griffin_lim(spectrum, hop_length=huge)


def test_frames_longer_than_the_sound_and_hops_longer_than_frames(device, rng):
    x = gp.from_numpy(rng.normal(size=40).astype("f4"))
    assert audio.stft(x, 512, 160).shape == (1, 257, 2)
    assert audio.stft(x, 512, 160, center=False).shape == (0, 257, 2)
    assert audio.mel_spectrogram(x, 512, 160, center=False).shape == (0, 80)
    assert audio.detect_pitch_yin_frames(x).shape == (0,)
    assert audio.zero_crossing_rate(x).shape == (0,)
    assert audio.time_stretch(x, 2.0).shape == (20,)
    long = gp.from_numpy(rng.normal(size=4000).astype("f4"))
    spectrum = audio.stft(long, 128, 400)
    assert spectrum.shape == (11, 65, 2)
    back = audio.istft(spectrum, 400, length=4000).to_numpy()
    near = np.abs((np.arange(4000) + 200) % 400 - 200) < 50
    np.testing.assert_allclose(back[near], long.to_numpy()[near], atol=1e-5)
    assert (back[~near & (np.abs((np.arange(4000) + 200) % 400 - 200) > 64)] == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_samples_stay_where_they_are(device, rng, bad):
    x = rng.normal(size=8000).astype("f4")
    x[2000] = bad
    given = gp.from_numpy(x)
    spectrum = audio.magnitude_spectrum(audio.stft(given))
    frames = np.abs(np.arange(51) * 160 - 2000) >= 256
    for values in (
        spectrum,
        audio.spectral_centroid(spectrum),
        audio.spectral_rolloff(spectrum),
        audio.spectral_flatness(spectrum),
        audio.spectral_contrast(spectrum),
        audio.chroma_stft(spectrum),
        audio.log_mel_spectrogram(given),
    ):
        y = values.to_numpy().reshape(51, -1)
        assert np.isfinite(y[frames]).all() and not np.isfinite(y[~frames]).all(axis=1).any()
    pitch = audio.detect_pitch_yin_frames(given).to_numpy()
    assert np.isfinite(pitch[8:]).all() and np.isnan(pitch[6])
    assert not np.isfinite(audio.autocorrelation(given, 5).to_numpy()).any()
    assert audio.zero_crossing_rate(given).to_numpy().max() <= 1
    audio.griffin_lim(spectrum, 2).to_numpy()
    audio.time_stretch(given, 1.5).to_numpy()
    assert not audio.onset_peaks(audio.onset_strength(given)).to_numpy().any()


def test_buffers_are_sound(device, rng):
    x = rng.normal(size=4000).astype("f4")
    mono = audio.AudioBuffer(gp.from_numpy(x), 16000)
    assert audio.stft(mono).to_numpy().tobytes() == audio.stft(gp.from_numpy(x)).to_numpy().tobytes()
    stereo = audio.AudioBuffer(gp.from_numpy(x), 16000, 2)
    left = audio.mel_spectrogram(gp.from_numpy(x[::2].copy())).to_numpy()
    both = audio.mel_spectrogram(stereo)
    assert both.shape == (2, 13, 80) and both.to_numpy()[0].tobytes() == left.tobytes()
