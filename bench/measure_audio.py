"""Fourier transforms against torch.fft and a copy, log-mel spectra against torchaudio, and the cost of a stream.

`fft_*`: torch's time over ours, and the share of the rate of a copy of as many bytes, for rows that no cache holds.
`log_mel_*`: 600 s at 16 kHz, 80 bands. `audio_push_10ms_us`: host time of a push of 10 ms of samples. See measure.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from contest import geomean
from timing import against_torch_us

ROWS_POINTS = 1 << 26  # of all rows together: 512 MB of complex64
BATCHED = (256, 512, 1024, 2048, 4096, 8192, 400, 480)
LONG = (65536, 1 << 20)
RANDOM_LENGTHS, LARGEST = 12, 3_000_000
RATE, SECONDS, BANDS = 16000, 600, 80
N_FFT, HOP = 400, 160


def rows_of(gp: Any, torch: Any, n: int, points: int) -> tuple[Any, Any, Any]:
    """Random rows of n complex64 points, our results, and torch's rows."""
    shape = (max(1, points // n), n)
    parts = gp.random.normal((*shape, 2), dtype="float32", seed=n)
    x, out = gp.bitcast(parts, "complex64").reshape(shape), gp.empty(shape, dtype="complex64")
    given = torch.view_as_complex(torch.randn((*shape, 2), device="cuda"))
    return x, out, given


def times_of(gp: Any, torch: Any, n: int, points: int) -> dict[str, float]:
    x, out, given = rows_of(gp, torch, n, points)
    # With out= torch would transform into other memory and copy.
    ours, theirs = against_torch_us(gp, torch, lambda: gp.fft.fft(x, out=out), lambda: torch.fft.fft(given))
    result = torch.empty_like(given)
    _, copy = against_torch_us(gp, torch, lambda: gp.fft.fft(x, out=out), lambda: result.copy_(given), repeats=7)
    return {"us": ours, "torch_us": theirs, "copy_us": copy}


def measure_fft(gp: Any, torch: Any, report: Any) -> None:
    times = {n: times_of(gp, torch, n, ROWS_POINTS) for n in BATCHED}
    report.add("fft_batched_min_vs_torch", min(t["torch_us"] / t["us"] for t in times.values()), shapes=times)
    report.add("fft_batched_min_vs_copy", min(t["copy_us"] / t["us"] for t in times.values()))
    for n in LONG:
        found = times_of(gp, torch, n, ROWS_POINTS)
        report.add(f"fft_{n}_vs_torch", found["torch_us"] / found["us"], **found)
    seed = time.time_ns() & 0xFFFFFFFF
    lengths = [int(v) for v in 10 ** np.random.default_rng(seed).uniform(2, np.log10(LARGEST), RANDOM_LENGTHS)]
    found = {n: times_of(gp, torch, n, ROWS_POINTS // 4) for n in lengths}
    ratios = [t["torch_us"] / t["us"] for t in found.values()]
    report.add("fft_random_vs_torch", geomean(ratios), seed=seed, smallest=min(ratios), shapes=found)


def mel_in_float64(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Power in triangles of the HTK scale, of frames around every hop, reflected at the ends."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
    padded = np.pad(x.astype(np.float64), N_FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::HOP]
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    mels = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    hz = 700 * (10 ** (mels / 2595) - 1)
    f = np.arange(N_FFT // 2 + 1) * RATE / N_FFT
    up, down = (f - hz[:-2, None]) / np.diff(hz)[:-1, None], (hz[2:, None] - f) / np.diff(hz)[1:, None]
    result: np.ndarray[Any, Any] = power @ np.maximum(0, np.minimum(up, down)).T
    return result


def measure_mel(gp: Any, torch: Any, report: Any) -> None:
    try:
        import torchaudio
    except ImportError as error:
        print(f"-- mel: not measured: {error}", flush=True)
        return
    from pygpukit.ops import audio

    sound = np.random.default_rng(3).normal(size=RATE * SECONDS).astype(np.float32) * 0.1
    x, given = gp.from_numpy(sound), torch.from_numpy(sound).cuda()
    mel = torchaudio.transforms.MelSpectrogram(RATE, N_FFT, hop_length=HOP, n_mels=BANDS).cuda()
    out = audio.log_mel_spectrogram(x, N_FFT, HOP, BANDS, RATE)
    ours, theirs = against_torch_us(
        gp, torch,
        lambda: audio.log_mel_spectrogram(x, N_FFT, HOP, BANDS, RATE, out=out),
        lambda: torch.log(mel(given) + 1e-10),
    )  # fmt: skip
    report.add("log_mel_600s_vs_torchaudio", theirs / ours, us=ours, torch_us=theirs)
    part = slice(100, 400)  # frames far from both ends
    want = np.log(mel_in_float64(sound[: 500 * HOP])[part] + 1e-10)
    far = float(np.abs(out[part].to_numpy() - want).max())
    other = float(np.abs(torch.log(mel(given[: 500 * HOP]) + 1e-10).cpu().numpy().T[part] - want).max())
    report.add("log_mel_error_vs_torchaudio", far / other, error=far, torch_error=other)


def push_us(gp: Any, piece: Any, pushes: int = 2000) -> float:
    """Median host microseconds of a push; chunks are taken out in between and not timed."""
    from pygpukit.ops import audio

    stream = audio.AudioStream(chunk_size=400, hop_size=HOP, sample_rate=RATE)
    times = []
    for _ in range(pushes):
        began = time.perf_counter()
        stream.push(piece)
        times.append(time.perf_counter() - began)
        while stream.has_chunk():
            stream.pop_chunk()
    gp.synchronize()
    return float(np.median(times) * 1e6)


def measure_stream(gp: Any, torch: Any, report: Any) -> None:
    host = np.zeros(RATE // 100, np.float32)
    report.add("audio_push_10ms_us", push_us(gp, host), of_an_array_us=push_us(gp, gp.from_numpy(host)))


GROUPS: dict[str, Callable[[Any, Any, Any], None]] = {
    "fft": measure_fft,
    "mel": measure_mel,
    "stream": measure_stream,
}
