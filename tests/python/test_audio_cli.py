"""The commands pygpukit audio info and plot."""

from __future__ import annotations

import base64
import json
import struct
import sys
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.cli import main
from pygpukit.ops import audio

RATE = 16000
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def recording(tmp_path):
    """A second of 220 Hz, a second of silence, a second of 440 Hz; the second channel is its opposite, softer."""
    t = np.arange(RATE) / RATE
    tones = [0.5 * np.sin(2 * np.pi * 220 * t), 0 * t, 0.5 * np.sin(2 * np.pi * 440 * t)]
    x = np.concatenate(tones).astype("f4")
    path = tmp_path / "tones & more.wav"
    audio.write_wav(path, gp.from_numpy(np.stack([x, -0.5 * x]), device="cpu"), RATE)
    return path


def test_info(recording, tmp_path, capsys):
    assert main(["audio", "info", str(recording), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["sample_rate"], facts["channels"], facts["samples"], facts["seconds"]) == (RATE, 2, 3 * RATE, 3.0)
    assert facts["peak_db"] == pytest.approx(-6.02, abs=0.01)
    assert facts["rms_db"] == pytest.approx(-12.83, abs=0.02)
    assert facts["full_scale"] == facts["not_finite"] == 0 and abs(facts["mean"]) < 1e-4
    assert main(["audio", "info", str(recording)]) == 0
    assert "3.000 s, 16000 Hz, 2 channels, 48000 samples" in capsys.readouterr().out
    odd = tmp_path / "odd.wav"
    audio.write_wav(odd, gp.from_numpy(np.array([np.nan, np.inf, 1, -1, 0], "f4"), device="cpu"), 8000, "float32")
    assert main(["audio", "info", str(odd)]) == 0
    out = capsys.readouterr().out
    assert "2 samples at full scale" in out and "2 samples are not finite" in out
    audio.write_wav(odd, gp.zeros((0,), device="cpu"), 8000)
    assert main(["audio", "info", str(odd)]) == 0 and "silence" in capsys.readouterr().out


def pixels(picture):
    data = base64.b64decode(picture.removeprefix("data:image/png;base64,"))
    width, height = struct.unpack(">II", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(data[at + 4 : at + 8 + length])
        packed += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def test_plot(device, recording, tmp_path, capsys):
    out = tmp_path / "picture.svg"
    assert main(["audio", "plot", str(recording), "-o", str(out), "--mels", "40"]) == 0
    assert "picture.svg: 3.00 s" in capsys.readouterr().out
    root = ElementTree.parse(out).getroot()
    assert root.find(f"{SVG}title").text == "tones & more.wav: 3.00 s at 16000 Hz"
    left, width = (float(root.find(f"{SVG}rect[@stroke]").get(name)) for name in ("x", "width"))
    # The waveform is flat in the silence.
    points = [tuple(map(float, p.split(","))) for p in root.find(f"{SVG}polygon").get("points").split()]
    middle = [y for x, y in points if 0.36 < (x - left) / width < 0.64]
    assert max(middle) - min(middle) < 3 and max(y for _, y in points) - min(y for _, y in points) > 100
    # The loudest band of the first tone is below that of the last, and the silence is dark.
    image = pixels(root.find(f"{SVG}image").get("href")).astype(int).sum(axis=2)
    assert image.shape == (40, 301)
    assert image[:, 50].argmax() > image[:, 250].argmax() and image[:, 150].max() < image[:, 50].max() / 3
    # Two lines of pitch, an octave apart.
    lines = [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in root.findall(f"{SVG}polyline")]
    heights = [np.median([y for _, y in line]) for line in lines if len(line) > 50]
    octave = 130 * np.log(2) / np.log(500 / 60)
    assert len(heights) == 2 and heights[0] - heights[1] == pytest.approx(octave, abs=1)


def test_plot_of_odd_files(device, tmp_path, capsys, monkeypatch):
    path = tmp_path / "odd.wav"
    for n, rate in ((1, 16000), (100, 192000), (3000, 8000)):
        values = np.full(n, np.nan, "f4") if n == 100 else np.zeros(n, "f4")
        audio.write_wav(path, gp.from_numpy(values, device="cpu"), rate, "float32")
        assert main(["audio", "plot", str(path)]) == 0
        ElementTree.parse(tmp_path / "odd.svg")
    audio.write_wav(path, gp.zeros((0,), device="cpu"), 8000)
    assert main(["audio", "plot", str(path)]) == 1
    assert "odd.wav has no samples" in capsys.readouterr().err
    assert main(["audio", "plot", str(tmp_path / "missing.flac")]) == 1
    (tmp_path / "there.flac").write_bytes(b"fLaC")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert main(["audio", "plot", str(tmp_path / "there.flac")]) == 1
    assert "pip install soundfile" in capsys.readouterr().err
