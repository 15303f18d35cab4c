"""Sound files and samples that nobody should send: what is read of them, or which error they give."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.asr import load_audio, preprocess_audio
from pygpukit.ops import audio

# What a reader of files must survive: the file is cut and grows again while it is read.
CUT = """
import os, sys, threading, time
from pygpukit.errors import FormatError
exec(sys.argv[2])
path, size = sys.argv[1], os.path.getsize(sys.argv[1])
done = threading.Event()
def cut():
    while not done.is_set():
        os.truncate(path, 100)
        time.sleep(0.001)
        os.truncate(path, size)
        time.sleep(0.03)
cutter = threading.Thread(target=cut)
cutter.start()
end = time.monotonic() + 1
try:
    while time.monotonic() < end:
        try:
            read(path)
        except (FormatError, ValueError):
            pass
finally:
    done.set()
    cutter.join()
"""
READERS = {
    "wav": "from pygpukit.ops.audio import read_wav as read",
    "tokenizer": "from pygpukit.llm import Tokenizer as read",
    "npy": "from pygpukit.io import load as read",
    "npz": "import pygpukit.io\nread = lambda path: pygpukit.io.load(path)['x']",
}


@pytest.mark.parametrize("kind", READERS)
def test_a_file_that_is_cut_while_it_is_read(tmp_path, kind):
    path = tmp_path / f"cut.{kind}"
    if kind == "wav":
        audio.write_wav(path, gp.zeros((1 << 22,), device="cpu"), 16000, "float32")
    elif kind == "npy":
        np.save(path, np.zeros(1 << 22, "f4"))
    elif kind == "npz":
        np.savez(path, x=np.zeros(1 << 22, "f4"))
    else:
        path.write_bytes(b" " * (16 << 20))
    run = subprocess.run([sys.executable, "-c", CUT, str(path), READERS[kind]], capture_output=True, text=True)
    assert run.returncode == 0, (run.returncode, run.stderr)


def wav(data, channels=1, rate=16000, tag=1, bits=16):
    fmt = struct.pack("<HHIIHH", tag, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


FLOATS = np.array([np.nan, np.inf, -np.inf, 1e38, -1e-40, 0.5] * 200, "<f4")
ODD = {
    "no samples": (wav(b""), 0),
    "one sample": (wav(b"\1\0"), 1),
    "one sample at 192 kHz": (wav(b"\1\0", rate=192000), 0),
    "one sample at 1 Hz": (wav(b"\1\0", rate=1), 16000),
    "192 kHz": (wav(b"\0\1" * 1920, rate=192000), 160),
    "32 channels": (wav(b"\0\1" * 32 * 100, channels=32), 100),
    "32 channels at 192 kHz": (wav(b"\0\1" * 32 * 1920, channels=32, rate=192000), 160),
    "1024 channels": (wav(b"\0\1" * 1024, channels=1024), 1),
    "NaN and infinite": (wav(FLOATS.tobytes(), tag=3, bits=32), 1200),
    "NaN and infinite at 44.1 kHz": (wav(FLOATS.tobytes(), tag=3, bits=32, rate=44100), 435),
    "float64 beyond float32": (wav(np.full(100, 1e300).tobytes(), tag=3, bits=64), 100),
    "a rate nobody has": (wav(b"\0\1" * 160, rate=15999), 160),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_sound_is_loaded(device, tmp_path, name):
    bytes_, length = ODD[name]
    path = tmp_path / "odd.wav"
    path.write_bytes(bytes_)
    samples = load_audio(path)
    assert samples.shape == (length,) and samples.dtype.name == "float32"
    if "NaN" not in name and "beyond" not in name:
        assert np.isfinite(samples.to_numpy()).all()
    # Whisper's front end gives as many frames as ever.
    assert preprocess_audio(path).shape == (80, 3000)
    assert preprocess_audio(path, padding=False).shape[0] == 80


def test_integers_are_full_scale_everywhere(device):
    for dtype in ("int8", "int16", "int32", "uint8", "uint16"):
        limits = np.iinfo(dtype)
        middle = 0 if limits.min < 0 else (limits.max + 1) // 2
        values = np.array([limits.min, middle, limits.max], dtype)
        want = [-1, 0, (limits.max - middle) / (limits.max - middle + 1)]
        for given in (values, gp.from_numpy(values), gp.from_numpy(np.stack([values, values]))):
            np.testing.assert_allclose(load_audio(given).to_numpy(), want, atol=1e-7)
    with pytest.raises(TypeError):
        load_audio(gp.zeros((3,), "complex64"))


def test_rates_and_buffers(device, rng):
    x = rng.normal(size=(400, 2)).astype("f4")
    for rate in (0, -1, 10_000_001):
        with pytest.raises(ValueError, match="rate must be 1 to"):
            load_audio(x[:, 0], sample_rate=rate)
    buffer = audio.from_pcm(x.reshape(-1), 8000, 2)
    want = audio.resample(gp.from_numpy(x.mean(axis=1)), 8000, 16000).to_numpy()
    np.testing.assert_allclose(load_audio(buffer).to_numpy(), want, atol=1e-6)


def test_other_formats_need_soundfile(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError):
        load_audio(tmp_path / "missing.flac")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(FileNotFoundError):
        load_audio(tmp_path / "missing.flac")
    path = tmp_path / "there.flac"
    path.write_bytes(b"fLaC")
    with pytest.raises(ImportError, match="there.flac: .*pip install soundfile"):
        load_audio(path)


def test_flac_has_the_samples_of_the_wav(assets, device):
    pytest.importorskip("soundfile")
    ours = load_audio(assets / "audio" / "jfk.wav").to_numpy()
    theirs = load_audio(os.fspath(assets / "audio" / "jfk.flac")).to_numpy()
    n = min(len(ours), len(theirs))
    assert abs(len(ours) - len(theirs)) < 16
    assert np.corrcoef(ours[:n], theirs[:n])[0, 1] > 0.99
