"""Writes tests/data/audio/*.npz: what librosa and torchaudio compute of the signals of tests/python/audio_signals.py and
of the first seconds of a recording.

    pip install librosa torch torchaudio
    python tools/make_audio_goldens.py [path of jfk.wav]

Spectra are stored as frames by bins, every STEP-th frame.
"""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import librosa
import numpy as np
import scipy.fft
import torch
import torchaudio

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from audio_signals import RATE, synthetic  # noqa: E402

STEP = 9
SPEECH_SECONDS = 3


def frames(x):
    """[bins, frames] as [some frames, bins]."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 0)[::STEP])


def spectra(y):
    z = librosa.stft(y, n_fft=512, hop_length=160, pad_mode="reflect")
    power = np.abs(z) ** 2
    mel = librosa.feature.melspectrogram(S=power, sr=RATE, n_fft=512, n_mels=80, htk=True, norm=None)
    log = np.log(mel + 1e-10)
    mfcc = scipy.fft.dct(log, axis=0, norm="ortho")[:13].astype("f4")
    slaney = librosa.feature.melspectrogram(y=y, sr=RATE, n_fft=400, hop_length=160, n_mels=40, pad_mode="reflect")
    window = {"win_length": 320, "window": "hann"}
    return {
        "stft": frames(z),
        "stft_400": frames(librosa.stft(y, n_fft=400, hop_length=160, pad_mode="reflect", **window)),
        "mel": frames(mel),
        "mel_slaney": frames(slaney),
        "mfcc": mfcc.T,
        "delta": librosa.feature.delta(mfcc, width=5, order=1, mode="nearest").T,
    }


def speech_of_torchaudio(y):
    x = torch.from_numpy(y)
    mel = torchaudio.transforms.MelSpectrogram(RATE, n_fft=512, hop_length=160, n_mels=80)(x)
    mfcc = torchaudio.transforms.MFCC(
        RATE, n_mfcc=13, log_mels=True, melkwargs={"n_fft": 512, "hop_length": 160, "n_mels": 80}
    )(x)
    return {
        "torch_mel": frames(mel.numpy()),
        "torch_mfcc": frames(mfcc.numpy()),  # of log(mel + 1e-6)
        "torch_deltas": frames(torchaudio.functional.compute_deltas(mfcc, win_length=9).numpy()),
        "torch_centroid": torchaudio.functional.spectral_centroid(
            x, RATE, 0, torch.hann_window(512), 512, 160, 512
        ).numpy(),
    }


def measures(y):
    size = np.abs(librosa.stft(y, n_fft=512, hop_length=160, pad_mode="reflect"))
    feature = librosa.feature
    peaks = feature.spectral_contrast(S=size, sr=RATE, n_bands=6, quantile=0.2)
    cqt = librosa.cqt(y, sr=RATE, hop_length=160, fmin=32.7, n_bins=84, sparsity=0)
    harmonic, percussive = librosa.decompose.hpss(size, kernel_size=31)
    apart = librosa.decompose.hpss(size, kernel_size=(8, 8), power=1.5, margin=2.0)
    envelope = librosa.onset.onset_strength(y=y, sr=RATE, n_fft=2048, hop_length=512, pad_mode="reflect")
    fine = librosa.onset.onset_strength(
        y=y, sr=RATE, n_fft=1024, hop_length=160, lag=2, max_size=3, n_mels=64, pad_mode="reflect"
    )
    return {
        "centroid": feature.spectral_centroid(S=size, sr=RATE)[0],
        "bandwidth": feature.spectral_bandwidth(S=size, sr=RATE)[0],
        "bandwidth_3": feature.spectral_bandwidth(S=size, sr=RATE, p=3)[0],
        "rolloff": feature.spectral_rolloff(S=size, sr=RATE, roll_percent=0.85)[0],
        "flatness": feature.spectral_flatness(S=size, power=1.0)[0],
        "contrast": peaks.T,
        "zero_crossings": feature.zero_crossing_rate(y, frame_length=512, hop_length=256, center=False)[0],
        "autocorrelation": librosa.autocorrelate(y, max_size=300),
        "yin": librosa.yin(y, fmin=50, fmax=500, sr=RATE, frame_length=1024, hop_length=256, center=False),
        "cqt": frames(np.abs(cqt)),
        "chroma": frames(feature.chroma_stft(S=size**2, sr=RATE, n_fft=512, tuning=0.0)),
        "chroma_tuned": frames(feature.chroma_stft(S=size**2, sr=RATE, n_fft=512, n_chroma=24, tuning=0.3)),
        "chroma_cqt": frames(feature.chroma_cqt(C=np.abs(cqt), bins_per_octave=12, fmin=32.7, threshold=0.0)),
        "harmonic": frames(harmonic),
        "percussive": frames(percussive),
        "harmonic_apart": frames(apart[0]),
        "percussive_apart": frames(apart[1]),
        "onset": envelope,
        "onset_fine": fine,
        "onset_frames": librosa.onset.onset_detect(onset_envelope=envelope, sr=RATE, hop_length=512),
        "onset_frames_fine": librosa.onset.onset_detect(onset_envelope=fine, sr=RATE, hop_length=160),
    }


def changes(y):
    z = librosa.stft(y, n_fft=1024, hop_length=256, pad_mode="reflect")
    faster = librosa.phase_vocoder(z, rate=1.3, hop_length=256)
    size = np.abs(librosa.stft(y, n_fft=512, hop_length=160, pad_mode="reflect"))
    rebuilt = librosa.griffinlim(size, n_iter=32, hop_length=160, random_state=0, pad_mode="reflect")
    again = np.abs(librosa.stft(rebuilt, n_fft=512, hop_length=160, pad_mode="reflect"))
    return {
        "vocoder": frames(faster),
        "griffin_lim_error": np.float32(np.linalg.norm(again - size) / np.linalg.norm(size)),
    }


def banks():
    return {
        "htk": librosa.filters.mel(sr=RATE, n_fft=512, n_mels=40, htk=True, norm=None),
        "slaney": librosa.filters.mel(sr=22050, n_fft=1000, n_mels=30, fmin=50, fmax=9000),
        "torch_htk_slaney": torchaudio.functional.melscale_fbanks(
            257, 0.0, 8000.0, 40, RATE, norm="slaney", mel_scale="htk"
        )
        .numpy()
        .T,
    }


def write(name, arrays):
    path = ROOT / "tests" / "data" / "audio" / name
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, **arrays)
    print(path.relative_to(ROOT), path.stat().st_size)


def main():
    y = synthetic()
    write("synthetic.npz", spectra(y) | measures(y) | changes(y))
    write("banks.npz", banks())
    if len(sys.argv) > 1:
        with wave.open(sys.argv[1]) as file:
            pcm = np.frombuffer(file.readframes(SPEECH_SECONDS * RATE), "<i2")
        y = (pcm / 32768).astype("f4")
        kept = ("mfcc", "centroid", "rolloff", "yin", "onset", "onset_frames", "cqt", "chroma_cqt", "harmonic")
        all_of = spectra(y) | measures(y)
        write("speech.npz", {name: all_of[name] for name in kept} | speech_of_torchaudio(y))


if __name__ == "__main__":
    main()
