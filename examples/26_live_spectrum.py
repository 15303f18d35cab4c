"""A spectrum that moves in the terminal, of a WAV file or of a tone that climbs.

    python 26_live_spectrum.py [speech.wav]

Sound comes in pieces of 10 ms, as a microphone gives it.
"""

import sys
import time

import numpy as np

import pygpukit as gp
from pygpukit.ops import audio

RATE, SHADES = 16000, " .:-=+*#%@"


def bars(chunk):
    """One line of 64 characters: the levels of as many bands up to 8 kHz."""
    power = gp.square(gp.abs(gp.fft.rfft(chunk, n=1024)))[1:].reshape((64, 8)).mean(axis=1)
    decibels = 10 * gp.log10(power + 1e-9)
    places = gp.clip((decibels + 40) / 80, 0.0, 0.999) * len(SHADES)
    return "".join(SHADES[int(place)] for place in places.to_numpy())


if len(sys.argv) > 1:
    buffer, rate = audio.read_audio(sys.argv[1])
    sound = audio.resample(buffer.mean(axis=0), rate, RATE).to_numpy()
else:
    t = np.arange(2 * RATE) / RATE
    sound = (0.5 * np.sin(2 * np.pi * (500 * t + 1500 * t**2))).astype("f4")  # from 500 Hz to 6.5 kHz

terminal = sys.stdout.isatty()
stream = audio.AudioStream(chunk_size=1024, hop_size=RATE // 50 if terminal else RATE // 10, sample_rate=RATE)
for begin in range(0, len(sound), RATE // 100):
    stream.push(sound[begin : begin + RATE // 100])
    while stream.has_chunk():
        line = bars(stream.pop_chunk())
        print(line if terminal else line.rstrip(), end="\r" if terminal else "\n", flush=True)
    if terminal:
        time.sleep(0.01)
if terminal:
    print()
