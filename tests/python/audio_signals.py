"""Signals made of integers and sines, the same everywhere: what golden files were computed from."""

from __future__ import annotations

import numpy as np

RATE = 16000


def noise(n, seed=1):
    """Uniform in [-1, 1) by a linear congruential generator."""
    state = np.uint64(seed)
    values = np.empty(n, np.uint64)
    for i in range(n):
        state = np.uint64((int(state) * 6364136223846793005 + 1442695040888963407) % 2**64)
        values[i] = state
    return (values >> np.uint64(40)).astype("f8") / 2**23 - 1


def synthetic():
    """1.2 seconds: notes of an arpeggio with harmonics, a click at each beginning, a sweep, a little noise."""
    n = RATE * 6 // 5
    t = np.arange(n) / RATE
    x = 0.02 * noise(n)
    for i, hz in enumerate((220.0, 277.18, 329.63, 440.0)):
        begin = i * n // 4
        s = t[: n // 4]
        note = sum(np.sin(2 * np.pi * hz * k * s) / k for k in (1, 2, 3, 4)) * np.exp(-3 * s)
        x[begin : begin + len(s)] += 0.25 * note
        x[begin : begin + 24] += 0.5 * noise(24, seed=i + 2)
    x += 0.05 * np.sin(2 * np.pi * (1000 * t + 1500 * t * t))
    return x.astype("f4")
