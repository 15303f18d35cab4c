"""Short-time spectra, Whisper's log-mel and WAV files against plain NumPy in float64."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest

import pygpukit as gp
from pygpukit._core import _audio
from pygpukit.ops import audio

ASSETS = os.environ.get("PYGPUKIT_ASSETS", "")
needs_assets = pytest.mark.skipif(not os.path.isdir(os.path.join(ASSETS, "whisper-tiny")), reason="needs the assets")


def hann(n):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


def reference_stft(x, n_fft, hop, win_length=-1, center=True):
    width = n_fft if win_length < 0 else win_length
    window = np.zeros(n_fft)
    start = (n_fft - width) // 2
    window[start : start + width] = hann(width)
    if center:
        x = np.pad(x, n_fft // 2, mode="reflect")
    frames = (len(x) - n_fft) // hop + 1
    return np.stack([np.fft.rfft(x[f * hop : f * hop + n_fft] * window) for f in range(frames)])


@pytest.mark.parametrize(
    "n, n_fft, hop, win_length, center",
    [
        (1000, 512, 160, -1, True),
        (1000, 400, 160, -1, True),
        (777, 20, 5, -1, True),
        (600, 101, 37, 64, True),
        (1000, 256, 64, 200, False),
        (5000, 2048, 512, -1, True),
        (40, 64, 16, -1, True),
    ],
)
def test_stft_and_back(device, rng, n, n_fft, hop, win_length, center):
    x = rng.normal(size=n).astype("f4")
    got = _audio.stft(gp.from_numpy(x), n_fft, hop, win_length, center)
    want = reference_stft(x.astype("f8"), n_fft, hop, win_length, center)
    assert got.dtype.name == "complex64" and got.shape == want.shape
    np.testing.assert_allclose(got.to_numpy(), want, atol=3e-6 * np.abs(want).max())
    np.testing.assert_allclose(_audio.power_spectrum(got).to_numpy(), np.abs(want) ** 2, rtol=1e-4, atol=1e-3)
    if center:
        back = _audio.istft(got, n_fft, hop, win_length, center, n).to_numpy()
        reach = min(n, (got.shape[0] - 1) * hop)
        assert np.abs(back[:reach] - x[:reach]).max() < 1e-5 * np.abs(x).max()


def test_stft_of_batches_and_views(device, rng):
    x = rng.normal(size=(3, 2, 900)).astype("f4")
    given = gp.from_numpy(x)
    batch = _audio.stft(given[:, 1], 128, 32)
    assert batch.shape == (3, 29, 65)
    for i in range(3):
        one = _audio.stft(given[i, 1], 128, 32)
        assert one.to_numpy().tobytes() == batch[i].to_numpy().tobytes()
    signals = _audio.istft(batch, 128, 32, length=900)
    assert signals.shape == (3, 900)
    np.testing.assert_allclose(signals.to_numpy()[:, :896], x[:, 1, :896], atol=1e-5)
    window = gp.from_numpy(np.hamming(64).astype("f4"))
    got = _audio.stft(given[0, 0], 64, 16, center=False, window=window).to_numpy()
    frames = np.stack([x[0, 0, 16 * f : 16 * f + 64] * np.hamming(64) for f in range(got.shape[0])])
    np.testing.assert_allclose(got, np.fft.rfft(frames.astype("f8")), atol=1e-4)


def test_stft_captured_and_errors(device, rng):
    x = gp.from_numpy(rng.normal(size=800).astype("f4"))
    out = gp.empty((51, 33), dtype="complex64")
    expected = _audio.stft(x, 64, 16, out=out).to_numpy()
    back = gp.empty((800,))
    _audio.istft(out, 64, 16, out=back)
    graph = gp.CudaGraph()
    with graph.capture():
        _audio.stft(x, 64, 16, out=out)
        _audio.istft(out, 64, 16, out=back)
    out[...] = 0
    graph.replay()
    assert out.to_numpy().tobytes() == expected.tobytes()
    np.testing.assert_allclose(back.to_numpy(), x.to_numpy(), atol=1e-5)
    for call, match in (
        (lambda: _audio.stft(x, 0), "n_fft must be at least 1"),
        (lambda: _audio.stft(x, 64, 0), "hop_length must be at least 1"),
        (lambda: _audio.stft(x, 64, 16, 65), "win_length must be -1 or between"),
        (lambda: _audio.stft(gp.zeros((0,))), "at least one sample"),
        (lambda: _audio.stft(gp.zeros((2, 3, 4))), "shape"),
        (lambda: _audio.istft(out, 128, 16), "n_fft / 2 \\+ 1 = 65 bins"),
        (lambda: _audio.stft(x, 64, window=gp.zeros((63,))), "window must have shape"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    assert _audio.stft(gp.zeros((10,)), 64, 16, center=False).shape == (0, 33)
    assert np.isfinite(_audio.stft(gp.ones((1,)), 64, 16).to_numpy()).all()


def slaney_filters(n_mels):
    def to_hz(mel):
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    top = 15 + np.log(8) / (np.log(6.4) / 27)
    hz = to_hz(np.linspace(0, top, n_mels + 2))
    f = np.linspace(0, 8000, 201)
    up = (f - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - f) / (hz[2:] - hz[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (hz[2:] - hz[:-2]))[:, None]


def reference_log_mel(x, n_mels, frames):
    x = np.pad(x[: frames * 160], (0, max(0, frames * 160 - len(x))))
    power = np.abs(reference_stft(x, 400, 160)[:-1]) ** 2
    logs = np.log10(np.maximum(slaney_filters(n_mels) @ power.T, 1e-10))
    return (np.maximum(logs, logs.max() - 8) + 4) / 4


@pytest.mark.parametrize("n, n_mels, frames", [(7000, 80, 50), (16000, 128, 40), (0, 80, 20), (1, 80, 33), (20000, 7, 17)])
def test_log_mel_whisper(device, rng, n, n_mels, frames):
    x = (rng.normal(size=n) * 0.1).astype("f4")
    got = audio.log_mel_whisper(gp.from_numpy(x), n_mels, frames)
    assert got.shape == (1, n_mels, frames) and got.dtype.name == "float32"
    want = reference_log_mel(x.astype("f8"), n_mels, frames)
    np.testing.assert_allclose(got.to_numpy()[0], want, atol=2e-5)


def test_log_mel_of_a_batch_and_captured(device, rng):
    x = (rng.normal(size=(5, 6000)) * np.array([1, 0.1, 0.01, 1e-4, 0])[:, None]).astype("f4")
    given = gp.from_numpy(x)
    whole = audio.log_mel_whisper(given, 80, 37)
    for i in range(5):
        assert audio.log_mel_whisper(given[i], 80, 37).to_numpy()[0].tobytes() == whole[i].to_numpy().tobytes()
    out = gp.empty(whole.shape)
    audio.log_mel_whisper(given, 80, 37, out=out)
    out[...] = 0
    graph = gp.CudaGraph()
    with graph.capture():
        audio.log_mel_whisper(given, 80, 37, out=out)
    graph.replay()
    assert out.to_numpy().tobytes() == whole.to_numpy().tobytes()
    turned = gp.from_numpy(np.ascontiguousarray(x.T)).T
    assert audio.log_mel_whisper(turned, 80, 37).to_numpy().tobytes() == whole.to_numpy().tobytes()
    assert np.isnan(audio.log_mel_whisper(gp.full((600,), np.nan), 80, 20).to_numpy()).any()
    with pytest.raises(ValueError, match="n_mels must be between 1 and 128"):
        audio.log_mel_whisper(given, 129)
    with pytest.raises(TypeError, match="float32"):
        audio.log_mel_whisper(given.astype("float64"))


@needs_assets
def test_whisper_filters_and_golden(device):
    for n_mels in (80, 128):
        stored = np.load(os.path.join(ASSETS, "whisper-tiny", "mel_filters.npz"))[f"mel_{n_mels}"]
        ours = _audio.create_mel_filterbank(n_mels, 400, scale="slaney", area_norm=True, exact=True).to_numpy()
        np.testing.assert_allclose(ours, stored, atol=1e-8)
    samples, rate = audio.read_wav(os.path.join(ASSETS, "audio", "jfk.wav"))
    assert rate == 16000 and samples.shape[0] == 1
    with open(os.path.join(ASSETS, "whisper-tiny", "golden_jfk.json")) as file:
        golden = json.load(file)
    mel = audio.log_mel_whisper(samples[0].to(device) if str(device) != "cpu" else samples[0]).to_numpy()
    assert mel.shape == (1, 80, 3000)
    assert abs(mel.mean(dtype="f8") - golden["mel_mean"]) < 1e-5
    want = reference_log_mel(samples.to_numpy()[0].astype("f8"), 80, 3000)
    assert np.abs(mel[0] - want).max() < 1e-4


@pytest.mark.parametrize("channels", [1, 2, 3, 32])
@pytest.mark.parametrize("format", ["pcm8", "pcm16", "pcm24", "pcm32", "float32", "float64"])
def test_wav_round_trip(device, rng, tmp_path, format, channels):
    x = rng.uniform(-1, 0.99, size=(channels, 101)).astype("f4")
    x[0, :4] = [-1, 0, 0.5, 0.25]
    path = tmp_path / "a.wav"
    audio.write_wav(path, gp.from_numpy(x), 192000, format)
    back, rate = audio.read_wav(path)
    assert rate == 192000 and back.shape == x.shape
    step = {"pcm8": 2**-8, "pcm16": 2**-16, "pcm24": 2**-24, "pcm32": 2**-24, "float32": 0, "float64": 0}[format]
    assert np.abs(back.to_numpy() - x).max() <= step
    np.testing.assert_array_equal(back.to_numpy()[0, :4], x[0, :4])


def test_wav_values_out_of_range(tmp_path):
    path = tmp_path / "a.wav"
    audio.write_wav(path, gp.from_numpy(np.array([2, -2, np.nan, np.inf, 1], "f4"), device="cpu"), 8000)
    back = audio.read_wav(path)[0].to_numpy()[0]
    np.testing.assert_array_equal(back, [32767 / 32768, -1, 0, 32767 / 32768, 32767 / 32768])
    audio.write_wav(path, gp.zeros((0,), device="cpu"), 8000)
    assert audio.read_wav(path)[0].shape == (1, 0)


def wav(data=b"\0" * 8, tag=1, channels=1, rate=8000, bits=16, block=None, byte_rate=None, extra=b"", chunks=b"", riff=None):
    block = channels * bits // 8 if block is None else block
    byte_rate = rate * block if byte_rate is None else byte_rate
    fmt = struct.pack("<HHIIHH", tag, channels, rate, byte_rate, block, bits) + extra
    body = b"WAVE" + chunks + b"fmt " + struct.pack("<I", len(fmt)) + fmt
    body += b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


GUID = bytes.fromhex("000000001000800000aa00389b71")
GOOD = wav()
BAD = {
    "empty": b"",
    "three bytes": b"RIF",
    "only riff": b"RIFF",
    "other magic": b"RIFX" + GOOD[4:],
    "no wave": GOOD[:8] + b"AVI " + GOOD[12:],
    "riff size too large": wav(riff=10**6),
    "riff size 0": wav(riff=0),
    "riff size all ones": wav(riff=2**32 - 1),
    "no chunks": b"RIFF" + struct.pack("<I", 4) + b"WAVE",
    "half a chunk header": b"RIFF" + struct.pack("<I", 8) + b"WAVEfmt ",
    "no data": b"RIFF" + struct.pack("<I", 28) + GOOD[8:36],
    "no fmt": b"RIFF" + struct.pack("<I", 20) + b"WAVEdata" + struct.pack("<I", 8) + b"\0" * 8,
    "two fmt": wav(chunks=GOOD[12:36]),
    "fmt too short": b"RIFF" + struct.pack("<I", 30) + b"WAVEfmt " + struct.pack("<I", 2) + b"\1\0" + GOOD[36:],
    "data size past the end": GOOD[:40] + struct.pack("<I", 9) + GOOD[44:],
    "data size huge": GOOD[:40] + struct.pack("<I", 2**32 - 1) + GOOD[44:],
    "chunk size past the end": wav(chunks=b"LIST" + struct.pack("<I", 10**6)),
    "cut": GOOD[:-1],
    "cut in fmt": GOOD[:30],
    "cut in header": GOOD[:9],
    "no channels": wav(channels=0, block=2),
    "too many channels": wav(channels=2000, rate=1, data=b""),
    "rate 0": wav(rate=0),
    "block 0": wav(block=0),
    "block too large": wav(block=4),
    "byte rate": wav(byte_rate=1),
    "12 bits": wav(bits=12, block=2),
    "0 bits": wav(bits=0, block=2),
    "64-bit pcm": wav(bits=64),
    "16-bit float": wav(tag=3),
    "adpcm": wav(tag=2, bits=4, block=1),
    "alaw": wav(tag=6, bits=8),
    "mp3": wav(tag=0x55),
    "tag 0": wav(tag=0),
    "data not whole blocks": wav(data=b"\0" * 7),
    "data not whole frames": wav(data=b"\0" * 6, channels=2),
    "extensible too short": wav(tag=0xFFFE),
    "extensible without guid": wav(tag=0xFFFE, extra=struct.pack("<HHIH", 22, 16, 0, 1) + b"\0" * 14),
    "extensible of unknown kind": wav(tag=0xFFFE, extra=struct.pack("<HHIH", 22, 16, 0, 9) + GUID),
    "extensible with short extension": wav(tag=0xFFFE, extra=struct.pack("<HHIH", 8, 16, 0, 1) + GUID),
    "extensible with more valid bits": wav(tag=0xFFFE, extra=struct.pack("<HHIH", 22, 24, 0, 1) + GUID),
    "odd chunk at the end": b"RIFF" + struct.pack("<I", 13) + b"WAVELIST" + struct.pack("<I", 1) + b"\0",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_wav(tmp_path, name):
    path = tmp_path / "bad.wav"
    path.write_bytes(BAD[name])
    with pytest.raises(gp.errors.FormatError, match="bad.wav: at byte [0-9]+: "):
        audio.read_wav(path)


def test_good_wav_with_other_chunks(tmp_path):
    path = tmp_path / "good.wav"
    data = struct.pack("<4h", 1, -1, 32767, -32768)
    for bytes_ in (
        wav(data),
        wav(data, chunks=b"LIST" + struct.pack("<I", 3) + b"abc\0"),
        wav(data) + b"trailing",
        wav(data, extra=b"\0\0"),
        wav(data, tag=0xFFFE, extra=struct.pack("<HHIH", 22, 16, 0, 1) + GUID),
    ):
        path.write_bytes(bytes_)
        samples, rate = audio.read_wav(str(path))
        np.testing.assert_array_equal(samples.to_numpy()[0] * 32768, [1, -1, 32767, -32768])
        assert rate == 8000
    with pytest.raises(OSError):
        audio.read_wav(tmp_path / "missing.wav")
    with pytest.raises(ValueError, match="format must be pcm8"):
        audio.write_wav(path, samples, 8000, "pcm12")


def test_wav_fuzz(rng, tmp_path):
    """Whatever the bytes: samples or a FormatError."""
    path = tmp_path / "fuzz.wav"
    good = np.frombuffer(wav(bytes(range(64)), channels=2, chunks=b"LIST" + struct.pack("<I", 4) + b"abcd"), np.uint8)
    for _ in range(500):
        bytes_ = good.copy()[: rng.integers(0, len(good) + 1)]
        if len(bytes_):
            at = rng.integers(0, len(bytes_), rng.integers(1, 5))
            bytes_[at] = rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))], len(at))
        path.write_bytes(bytes_.tobytes())
        try:
            samples, rate = audio.read_wav(path)
        except gp.errors.FormatError:
            continue
        assert rate > 0 and samples.size <= 64
