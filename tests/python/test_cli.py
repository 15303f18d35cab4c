"""The command pygpukit."""

import json
import os
import subprocess
import sys

import pytest

import pygpukit as gp
from pygpukit.cli import main
from pygpukit.cli.text import human_bytes, progress, table


def run(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "pygpukit", *arguments],
        capture_output=True, text=True, timeout=300, env={**os.environ, **env},
    )  # fmt: skip


def test_version():
    done = run("--version")
    assert done.returncode == 0 and done.stdout.strip() == f"pygpukit {gp.__version__}"


@pytest.mark.parametrize("command", [[], ["doctor"], ["info"], ["cache"], ["cache", "warm"], ["demo"], ["bench"], ["generate"], ["chat"]])
def test_help_everywhere(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0 and "usage: pygpukit" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [[], ["nothing"], ["cache"], ["cache", "nothing"], ["info", "--yaml"]])
def test_wrong_usage_exits_2(wrong, capsys):
    with pytest.raises(SystemExit) as caught:
        main(wrong)
    assert caught.value.code == 2 and "usage" in capsys.readouterr().err


def test_info_json(capsys):
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["version"] == gp.__version__ and facts["mode"] in ("cpu", "driver-only", "full-jit")
    assert facts["devices"][-1]["device"] == "cpu"
    assert {v["name"] for v in facts["environment"]} >= {
        "PYGPUKIT_DEVICE",
        "PYGPUKIT_CACHE_DIR",
        "PYGPUKIT_NUM_THREADS",
    }
    for library in facts["libraries"]:
        assert library["path"] or library["reason"]


def test_info_text(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert "PyGPUkit" in out and "Environment" in out and "\x1b" not in out


def test_doctor_names_the_mode_and_a_fix(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "mode: " in out and "cache:" in out
    if not gp.is_cuda_available():
        assert gp.cuda_unavailable_reason().split(":")[0] in out and "fix: " in out


@pytest.mark.skipif(gp.is_cuda_available(), reason="there is a GPU")
def test_doctor_fails_when_the_device_asked_for_is_missing():
    done = run("doctor", PYGPUKIT_DEVICE="cuda")
    assert done.returncode == 1 and "problem" in done.stdout


def test_cache_commands(tmp_path):
    done = run("cache", "info", PYGPUKIT_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0 and str(tmp_path) in done.stdout and "entries: 0" in done.stdout
    done = run("cache", "clear", PYGPUKIT_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0 and "removed 0 entries" in done.stdout
    if not gp.is_cuda_available():
        done = run("cache", "warm", PYGPUKIT_CACHE_DIR=str(tmp_path / "cache"))
        assert done.returncode == 1 and done.stderr.startswith("pygpukit: ") and "Traceback" not in done.stderr


def test_demo_agrees_with_numpy():
    done = run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mode: " in done.stdout and "equal to NumPy" in done.stdout and "DIFFERENT" not in done.stdout
    assert "matmul" in done.stdout


def test_text_helpers(capsys):
    assert human_bytes(512) == "512 B" and human_bytes(1536) == "1.5 KiB" and human_bytes(3 << 40) == "3.0 TiB"
    assert table([["a", "bb"], ["ccc", "d"]]) == "  a    bb\n  ccc  d"
    assert progress("x") is None


@pytest.mark.parametrize("command", ["doctor", "info"])
def test_lines_fit_80_columns(command):
    done = subprocess.run(
        [sys.executable, "-m", "pygpukit", command],
        capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    # One word, such as a path, stays whole.
    wide = [line for line in done.stdout.splitlines() if len(line) > 80 and len(line.split()) > 1]
    assert not wide, wide
    assert done.stdout.count("cannot open shared object file") <= 2


@pytest.mark.parametrize("command", [["audio", "plot", "x.wav", "-o", "x.png"], ["speak", "Yes.", "-o", "x.mp3"]])
def test_a_file_has_the_suffix_of_its_format(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(command)
    assert caught.value.code == 2 and "must end in ." in capsys.readouterr().err and not list(tmp_path.iterdir())


COMMANDS = ("", "audio", "bench", "cache", "chat", "demo", "doctor", "info", "simulate", "speak", "top", "transcribe")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    shown = capsys.readouterr().out
    assert shown and not [line for line in shown.splitlines() if len(line) > 80]


def test_doctor_shows_an_mps_server(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "40")
    main(["doctor"])
    assert f"MPS: no server, looked for {tmp_path}/control" in capsys.readouterr().out
    (tmp_path / "control").touch()
    main(["doctor"])
    shown = capsys.readouterr().out
    assert f"MPS: a server, looked for {tmp_path}/control" in shown
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40" in shown and "MIG: " in shown


def test_output_that_is_not_unicode():
    shown = run("speak", "--help", PYTHONIOENCODING="ascii")
    assert shown.returncode == 0 and r"k\u02c8Ok" in shown.stdout


@pytest.mark.skipif(os.name != "posix", reason="arguments are bytes on POSIX alone")
def test_a_text_that_is_not_of_the_locale():
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"pygpukit", b"generate", b"caf\xe9"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1 and "PYTHONUTF8=1" in done.stderr and "Traceback" not in done.stderr
