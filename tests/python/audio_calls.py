"""Calls with ``out=`` of the features of sound, for the tests that capture every operation."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases_capture import Arrays, Call
from opcase import upload

from pygpukit.ops import audio_features


def of(name: str, *shapes: tuple[int, ...], label: str = "", **options: Any) -> Call:
    def make(rng: np.random.Generator) -> Arrays:
        return [upload(rng.uniform(0.1, 1, shape), "float32") for shape in shapes]

    def run(arrays: Arrays, **more: Any) -> Any:
        return getattr(audio_features, name)(*arrays, **options, **more)

    return Call(name, make, run, label, audio_features)


SPECTRUM = (2, 20, 65)
CALLS = [
    of("stft", (2, 900), n_fft=128, hop_length=32),
    of("stft", (900,), label="complex", n_fft=100, hop_length=32, return_complex=True),
    of("istft", (2, 20, 65, 2), hop_length=32),
    of("power_spectrum", (20, 65, 2)),
    of("magnitude_spectrum", (20, 65, 2)),
    of("create_mel_filterbank", n_mels=10, n_fft=64),
    of("apply_mel_filterbank", SPECTRUM, (10, 65)),
    of("log_mel", SPECTRUM),
    of("to_decibels", (900,)),
    of("mel_spectrogram", (2, 900), n_fft=128, n_mels=20),
    of("log_mel_spectrogram", (900,), n_fft=128, n_mels=20),
    of("mfcc", SPECTRUM, n_mfcc=7),
    of("delta", SPECTRUM, order=2),
    of("autocorrelation", (2, 900), max_lag=50),
    of("detect_pitch_yin_frames", (2, 900), frame_size=256, hop_size=64),
    of("spectral_centroid", SPECTRUM),
    of("spectral_bandwidth", SPECTRUM, (2, 20), p=3),
    of("spectral_rolloff", SPECTRUM),
    of("spectral_flatness", SPECTRUM),
    of("spectral_contrast", SPECTRUM),
    of("zero_crossing_rate", (2, 900), frame_size=100, hop_size=50),
    of("cqt", (2, 900), f_min=500, n_bins=24),
    of("cqt_magnitude", (900,), f_min=500, n_bins=24),
    of("chroma_stft", SPECTRUM, n_chroma=10),
    of("chroma_cqt", (2, 20, 36), bins_per_octave=24),
    of("harmonic", SPECTRUM, kernel_size=5),
    of("percussive", SPECTRUM, kernel_size=4, margin=2.0),
    of("griffin_lim", SPECTRUM, n_iter=3, hop_length=32),
    of("phase_vocoder", (20, 65, 2), rate=1.3, n_fft=128, hop_length=32),
    of("time_stretch", (2, 900), rate=0.7, n_fft=128, hop_length=32),
    of("pitch_shift", (900,), sample_rate=16000, n_steps=4, n_fft=128, hop_length=32),
    of("onset_strength", (2, 900), n_fft=128, hop_length=32, n_mels=20),
    of("onset_peaks", (2, 40), hop_length=160),
]
