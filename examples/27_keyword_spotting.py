"""Words told apart by their MFCC: each is compared with one example of every word, however fast it is said.

The words are made here, of tones that stand for the formants of vowels; put recordings in their place.
"""

import numpy as np

import pygpukit as gp
from pygpukit.ops import audio

RATE = 16000
VOWELS = {"a": (700, 1200), "e": (400, 2200), "i": (280, 2600), "o": (450, 800), "u": (300, 700)}
WORDS = {"aida": "aia", "oui": "ui", "neo": "eo", "aloe": "aoe"}
rng = np.random.default_rng(7)


def say(vowels, speed=1.0, pitch=120.0):
    """A word in a voice of some pitch, with a little noise."""
    parts = []
    for vowel in vowels:
        t = np.arange(int(0.25 * RATE / speed)) / RATE
        hums = np.arange(1, int(4000 / pitch)) * pitch
        near = sum(np.exp(-((hums - formant) ** 2) / (2 * 150.0**2)) for formant in VOWELS[vowel]) + 0.01
        parts.append((near[:, None] * np.sin(2 * np.pi * hums[:, None] * t)).sum(axis=0))
    word = np.concatenate(parts)
    return gp.from_numpy((0.3 * word / np.abs(word).max() + 0.003 * rng.normal(size=word.size)).astype("f4"))


def features(sound):
    """Coefficients 1 to 12 and how they change, [frames, 24]."""
    logs = audio.log_mel_spectrogram(sound, n_fft=400, hop_length=160, n_mels=40, sample_rate=RATE, eps=1e-6)
    coefficients = audio.mfcc(logs, n_mfcc=13)[:, 1:]
    return gp.concat([coefficients, 2 * audio.delta(coefficients)], axis=1)


def distance(a, b):
    """The mean distance along the best way through both words (dynamic time warping)."""
    gaps = gp.sqrt(gp.square(a[:, None, :] - b[None, :, :]).sum(axis=2)).to_numpy()
    best = np.full((gaps.shape[0] + 1, gaps.shape[1] + 1), np.inf)
    best[0, 0] = 0
    for i, row in enumerate(gaps, 1):
        for j, gap in enumerate(row, 1):
            best[i, j] = gap + min(best[i - 1, j], best[i, j - 1], best[i - 1, j - 1])
    return best[-1, -1] / sum(gaps.shape)


examples = {word: features(say(vowels)) for word, vowels in WORDS.items()}
for word, vowels in WORDS.items():
    for speed, pitch in ((1.0, 140.0), (1.4, 110.0), (0.7, 175.0)):
        heard = features(say(vowels, speed, pitch))
        found = min(examples, key=lambda name: distance(heard, examples[name]))
        print(f"{word} at {speed} of its speed and {pitch:.0f} Hz: {found}")
