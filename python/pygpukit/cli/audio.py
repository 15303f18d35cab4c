"""``pygpukit audio``: facts about a recording, and a picture of it."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import pygpukit as gp
from pygpukit.cli.text import ending, fitting
from pygpukit.ops.audio import read_audio

__all__ = ["EPILOG", "add_arguments", "audio"]

EPILOG = """\
examples:
  pygpukit audio info speech.wav
  pygpukit audio plot speech.wav -o speech.svg

plot draws the waveform, the log-mel spectrum and the pitch of the mean of all
channels. Files other than WAV need soundfile.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What follows the word ``audio``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = actions.add_parser("info", help="rate, channels, length and levels")
    info.add_argument("file", metavar="FILE")
    info.add_argument("--json", action="store_true", help="machine-readable")
    plot = actions.add_parser("plot", help="waveform, log-mel spectrum and pitch as a picture")
    plot.add_argument("file", metavar="FILE")
    plot.add_argument("-o", "--output", type=ending(".svg"), metavar="OUT", help="the SVG file (FILE with .svg)")
    plot.add_argument("--mels", type=int, default=80, metavar="N", help="mel bands (80)")
    plot.add_argument("--f-max", type=float, default=-1.0, metavar="HZ", help="the top of the spectrum (half the rate)")


def _decibels(level: float) -> float | None:
    return 20 * math.log10(level) if level > 0 else None


def _shown(level: float | None) -> str:
    return "silence" if level is None else f"{level:.1f} dB"


def _info(path: str, as_json: bool) -> int:
    samples, rate = read_audio(path)
    channels, n = samples.shape
    finite = gp.where(gp.isfinite(samples), samples, 0.0)
    peak = float(gp.abs(finite).max()) if n else 0.0
    square = float(gp.square(finite).mean()) if n else 0.0
    facts = {
        "file": path,
        "sample_rate": rate,
        "channels": channels,
        "samples": n,
        "seconds": n / rate,
        "peak_db": _decibels(peak),
        "rms_db": _decibels(math.sqrt(square)),
        "mean": float(finite.mean()) if n else 0.0,
        "full_scale": int(gp.count_nonzero(gp.abs(finite) >= 32767 / 32768)) if n else 0,
        "not_finite": int(gp.count_nonzero(~gp.isfinite(samples))) if n else 0,
    }
    if as_json:
        print(json.dumps(facts))
        return 0
    shape = f"{rate} Hz, {channels} channel{'s' if channels > 1 else ''}, {n} samples"
    print(fitting(f"{path}: {facts['seconds']:.3f} s, {shape}"))
    print(f"peak {_shown(_decibels(peak))}, level {_shown(_decibels(math.sqrt(square)))}, mean {facts['mean']:.5f}")
    if facts["full_scale"]:
        print(f"{facts['full_scale']} samples at full scale")
    if facts["not_finite"]:
        print(f"{facts['not_finite']} samples are not finite")
    return 0


def audio(arguments: argparse.Namespace) -> int:
    """Runs one action; gives its exit code."""
    if arguments.action == "info":
        return _info(arguments.file, arguments.json)
    from pygpukit.cli.audio_plot import draw

    samples, rate = read_audio(arguments.file)
    mono = samples[0] if samples.shape[0] == 1 else samples.mean(axis=0)
    where = Path(arguments.output) if arguments.output else Path(arguments.file).with_suffix(".svg")
    picture = draw(mono, rate, Path(arguments.file).name, arguments.mels, arguments.f_max)
    where.write_text(picture, encoding="utf-8", newline="\n")
    print(f"{where}: {mono.shape[0] / rate:.2f} s")
    return 0
