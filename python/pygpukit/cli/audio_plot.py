"""A recording as SVG: waveform, log-mel spectrum, pitch."""

from __future__ import annotations

import base64
import html
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit.errors import ShapeError
from pygpukit.ops import audio

__all__ = ["draw"]

WIDTH, LEFT, RIGHT, TOP = 960, 64, 16, 44
PANEL = WIDTH - LEFT - RIGHT
WAVE, MEL, PITCH, GAP = 150, 220, 130, 34
PITCH_RANGE = (60.0, 500.0)
FLOOR_DB = -80.0
# From dark to light, of even steps to the eye.
COLOURS = np.array(
    [(12, 8, 38), (61, 18, 99), (116, 31, 110), (170, 46, 97), (219, 73, 70), (246, 122, 36), (251, 183, 42), (252, 250, 175)],
    dtype=np.float64,
)  # fmt: skip


def draw(mono: gp.GPUArray, rate: int, name: str, n_mels: int = 80, f_max: float = -1.0) -> str:
    """The picture of float32 ``[n]``. What is not finite counts as silence."""
    if mono.shape[0] == 0:
        raise ShapeError(f"audio plot: {name} has no samples")
    mono = gp.where(gp.isfinite(mono), mono, 0.0)
    seconds = mono.shape[0] / rate
    mel_top = TOP + WAVE + GAP
    pitch_top = mel_top + MEL + GAP
    height = pitch_top + PITCH + 40
    title = html.escape(f"{name}: {seconds:.2f} s at {rate} Hz")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold" fill="#222222">{title}</text>',
        *_waveform(mono, TOP),
        *_mel(mono, rate, mel_top, n_mels, f_max),
        *_pitch(mono, rate, pitch_top),
        *_times(seconds, [(TOP, WAVE), (mel_top, MEL), (pitch_top, PITCH)]),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _frame(top: float, size: float, label: str) -> list[str]:
    return [
        f'<rect x="{LEFT}" y="{top}" width="{PANEL}" height="{size}" fill="none" stroke="#999999"/>',
        f'<text x="{LEFT}" y="{top - 6}" fill="#444444">{label}</text>',
    ]


def _tick(y: float, text: str) -> str:
    return f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444444">{text}</text>'


def _columns(values: gp.GPUArray, count: int) -> gp.GPUArray:
    """[count or fewer, several] of [n]: what each column of the picture shows. The last value fills the last one."""
    n = values.shape[0]
    each = -(-n // count)
    columns = -(-n // each)
    missing = columns * each - n
    if missing:
        values = gp.concat([values, gp.broadcast_to(values[n - 1 :], (missing,))])
    return values.reshape((columns, each))


def _waveform(mono: gp.GPUArray, top: float) -> list[str]:
    peak = max(float(gp.abs(mono).max()), 1e-9)
    columns = _columns(mono, PANEL)
    low, high = columns.min(axis=1).to_numpy() / peak, columns.max(axis=1).to_numpy() / peak
    middle, half = top + WAVE / 2, WAVE / 2 - 4
    step = PANEL / len(low)
    # An outline: along the tops, back along the bottoms. Half a pixel keeps silence visible.
    tops = [f"{LEFT + (i + 0.5) * step:.1f},{middle - v * half - 0.5:.1f}" for i, v in enumerate(high)]
    bottoms = [f"{LEFT + (i + 0.5) * step:.1f},{middle - v * half + 0.5:.1f}" for i, v in enumerate(low)]
    return [
        *_frame(top, WAVE, "waveform"),
        f'<line x1="{LEFT}" x2="{LEFT + PANEL}" y1="{middle}" y2="{middle}" stroke="#dddddd"/>',
        f'<polygon points="{" ".join(tops + bottoms[::-1])}" fill="#2f6db3" stroke="#2f6db3" stroke-width="0.4"/>',
        _tick(middle - half, f"{peak:.2g}"),
        _tick(middle, "0"),
        _tick(middle + half, f"-{peak:.2g}"),
    ]


def _mel(mono: gp.GPUArray, rate: int, top: float, n_mels: int, f_max: float) -> list[str]:
    n_fft = 1 << max(6, round(np.log2(0.04 * rate)))
    hop = max(1, rate // 100, mono.shape[0] // 24000)
    bands = audio.mel_spectrogram(mono, n_fft, hop, n_mels, rate, 0.0, f_max)
    frames = bands.shape[0]
    each = -(-frames // PANEL)
    if frames % each:
        last = gp.broadcast_to(bands[frames - 1 :], (each - frames % each, n_mels))
        bands = gp.concat([bands, last])
    decibels = audio.to_decibels(bands.reshape((-1, each, n_mels)).mean(axis=1)).to_numpy()
    decibels = np.maximum(decibels - decibels.max(), FLOOR_DB) if decibels.max() > -99 else np.full_like(decibels, FLOOR_DB)
    picture = base64.b64encode(_png(1 - decibels.T[::-1] / FLOOR_DB)).decode("ascii")
    highest = rate / 2 if f_max < 0 else f_max

    def mel_of(hz: float) -> float:
        return float(2595 * np.log10(1 + hz / 700))

    ticks = [hz for hz in (250, 500, 1000, 2000, 4000, 8000, 16000) if hz < 0.97 * highest]
    return [
        f'<image x="{LEFT}" y="{top}" width="{PANEL}" height="{MEL}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{picture}"/>',
        *_frame(top, MEL, f"log-mel spectrum, {n_mels} bands, down to {-FLOOR_DB:.0f} dB below the loudest"),
        *(
            _tick(top + MEL * (1 - mel_of(hz) / mel_of(highest)), f"{hz} Hz" if hz < 1000 else f"{hz // 1000} kHz")
            for hz in ticks
        ),
    ]


def _png(values: NDArray[np.float32]) -> bytes:
    """An image of values from 0 to 1, the first row on top."""
    rows, columns = values.shape
    place = np.clip(values, 0, 1) * (len(COLOURS) - 1)
    left = np.minimum(place.astype(int), len(COLOURS) - 2)
    part = (place - left)[..., None]
    pixels = (COLOURS[left] * (1 - part) + COLOURS[left + 1] * part + 0.5).astype(np.uint8)
    lines = np.zeros((rows, 1 + 3 * columns), np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    packed = zlib.compress(lines.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def _pitch(mono: gp.GPUArray, rate: int, top: float) -> list[str]:
    low, high = PITCH_RANGE
    size = max(64, round(0.064 * rate))
    hop = max(1, rate // 100, mono.shape[0] // 24000)
    hertz = np.zeros(0)
    if mono.shape[0] >= size and high < rate / 2:
        hertz = audio.detect_pitch_yin_frames(mono, rate, size, hop, low, high, 0.15).to_numpy()
    span = np.log(high / low)

    def y_of(hz: float) -> float:
        return top + PITCH * (1 - float(np.log(hz / low) / span))

    # A line ends where there is no pitch, and where it leaps.
    runs: list[list[str]] = [[]]
    before = 0.0
    for i, hz in enumerate(hertz):
        if not low <= hz <= high or not 0.8 < hz / (before or hz) < 1.25:
            runs.append([])
        before = hz if low <= hz <= high else 0.0
        if not before:
            continue
        x = LEFT + PANEL * (i * hop + size / 2) / mono.shape[0]
        runs[-1].append(f"{x:.1f},{y_of(float(hz)):.1f}")
    lines = [
        f'<polyline points="{" ".join(run)}" fill="none" stroke="#c2411c" stroke-width="1.8" stroke-linecap="round"/>'
        for run in runs
        if len(run) > 2
    ]
    grid = [
        part
        for hz in (100, 200, 400)
        for part in (
            f'<line x1="{LEFT}" x2="{LEFT + PANEL}" y1="{y_of(hz):.1f}" y2="{y_of(hz):.1f}" stroke="#eeeeee"/>',
            _tick(y_of(hz), f"{hz} Hz"),
        )
    ]
    return [*grid, *lines, *_frame(top, PITCH, "pitch")]


def _times(seconds: float, panels: list[tuple[float, float]]) -> list[str]:
    """Ticks below the last panel, about eight of them."""
    steps = [m * 10.0**e for e in range(-5, 6) for m in (1, 2, 5)]
    step = next((s for s in steps if seconds / s <= 9), steps[-1])
    bottom = panels[-1][0] + panels[-1][1]
    parts = []
    for i in range(int(seconds / step) + 1):
        x = LEFT + PANEL * i * step / seconds
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + size}" y2="{top + size + 4}" stroke="#999999"/>'
            for top, size in panels
        ]
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#444444">{i * step:g} s</text>')
    return parts
