"""Every command keeps to 80 columns, its helps and what it prints, on the CPU."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
import wave

import pytest

from pygpukit.cli.text import Folder, short_reason


def run(*arguments, cwd=None, text=None):
    """(exit code, stdout, stderr) at 80 columns. A single word, such as a path, may be longer."""
    env = {**os.environ, "COLUMNS": "80", "PYGPUKIT_DEVICE": "cpu", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-m", "pygpukit", *map(str, arguments)],
        capture_output=True, encoding="utf-8", timeout=300, env=env, cwd=cwd, input=text,
    )  # fmt: skip
    wide = [x for x in (done.stdout + done.stderr).splitlines() if len(x) > 80 and len(x.split()) > 1]
    assert not wide, wide
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "tone.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(b"".join(struct.pack("<h", int(8000 * math.sin(i / 20))) for i in range(16000)))
    return path


@pytest.mark.parametrize("command", ["info", "doctor", "demo", "cache info"])
def test_looks_at_the_machine(command):
    code, out, _ = run(*command.split())
    assert code == 0 and out
    assert not [word for word in out.split() if word.isdecimal() and len(word) > 6], "bytes in units of people"


def test_generate_folds_the_story():
    code, out, err = run("generate", "Once upon a time", "--max-new-tokens", "60", "--seed", "1")
    assert code == 0 and len(out.splitlines()) > 1 and "tokens/s" in err


def test_chat_names_what_it_needs():
    code, _, err = run("chat", text="hello\n")
    assert code == 1 and "name a MODEL" in err


def test_simulate_fits_the_timeline(tmp_path):
    workload = {
        "name": "two tenants whose name is rather long for a line of text on a terminal of people",
        "devices": [{"name": "gpu", "memory": "16GB", "streams": 2}],
        "contexts": [
            {"name": "chat", "memory_request": "8 GiB", "memory_limit": "8 GiB"},
            {"name": "batch", "memory_request": "90 GiB", "memory_limit": "90 GiB"},
        ],
        "tasks": [
            {"id": "answer", "context": "chat", "duration_ms": 4, "memory": "2GB"},
            {"id": "job", "context": "batch", "duration_ms": 5, "memory": "6 GiB", "count": 3, "every_ms": 1},
        ],
    }
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(workload))
    code, out, _ = run("simulate", path)
    assert code == 0 and "memory up to" in out and "16.0 GiB" in out


def test_top_without_a_program(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for options, whose in (((), "no program publishes its state"), (("--pid", "1"), "process 1 publishes no state")):
        code, _, err = run("top", "--once", *options)
        assert code == 1 and whose in " ".join(err.split()) and "publish_snapshot()" in err


def test_top(tmp_path):
    path = tmp_path / "state.json"
    code = f"import pygpukit as gp; x = gp.ones((100, 100)) @ gp.ones((100, 100)); gp.runtime.publish_snapshot({str(path)!r})"
    subprocess.run([sys.executable, "-c", "import pygpukit.runtime; " + code], check=True, timeout=120)
    code, out, _ = run("top", "--once", "--file", path)
    head = next(line for line in out.splitlines() if line.startswith("  device"))
    assert code == 0 and head.endswith("streams  at gate"), "columns one can do without go first, none is cut"


def test_audio(recording):
    assert run("audio", "info", recording.name, cwd=recording.parent)[0] == 0
    assert run("audio", "plot", recording.name, cwd=recording.parent)[0] == 0


def test_bench():
    code, out, _ = run("bench", "--gemm", "--gemv", "--sizes", "64", "--quick", "--dtypes", "fp32,bf16")
    assert code == 0 and "ceiling" in out


def test_transcribe_speak_and_voices(assets, tmp_path):
    whisper, kokoro = assets / "whisper-tiny", assets / "kokoro-82m"
    code, out, _ = run("transcribe", assets / "audio" / "jfk.wav", "--model", whisper)
    assert code == 0 and len(out.splitlines()) > 1
    text = "This is a sentence that goes on for so long that one line of a terminal does not hold it."
    code, out, _ = run("speak", text, "--model", kokoro, "-o", "s.wav", cwd=tmp_path)
    assert code == 0 and "phonemes: " in out
    assert run("voices", "--model", kokoro)[0] == 0


@pytest.mark.parametrize("command", ["audio info", "audio plot", "cache clear", "cache info", "cache warm", "generate", "voices"])
def test_other_helps(command):
    code, out, _ = run(*command.split(), "--help")
    assert code == 0 and out.startswith("usage: pygpukit")


def test_the_missing_driver_is_told_once_and_folded():
    env = {**os.environ, "COLUMNS": "80", "CUDA_VISIBLE_DEVICES": ""}
    env.pop("PYGPUKIT_DEVICE", None)
    done = subprocess.run([sys.executable, "-m", "pygpukit", "demo"], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0
    assert (done.stdout + done.stderr).count("tried") <= 1
    for line in (done.stdout + done.stderr).splitlines():
        assert len(line) <= 80, line


def test_folder_keeps_words_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    folder = Folder()
    text = "the quick brown fox jumps over the lazy dog\nand then it sleeps for a long and quiet while"
    pieces = [text[i : i + 3] for i in range(0, len(text), 3)]
    folded = "".join(folder.push(piece) for piece in pieces) + folder.flush()
    assert folded.split() == text.split() and max(map(len, folded.splitlines())) <= 40
    assert len(folded.splitlines()) == 4
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    plain = Folder()
    assert plain.push(text) + plain.flush() == text


def test_short_reason():
    assert short_reason("CUDA driver not detected: tried a, b; install it") == "CUDA driver not detected"
