"""Every example runs on every device present and prints what the file beside it says."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import DEVICES

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = sorted(path.name for path in FOLDER.glob("[0-9]*.py"))


def same_everywhere(text):
    """The lines that do not depend on the machine."""
    return [line for line in text.splitlines() if not line.startswith("here:")]


def test_there_are_examples():
    assert len(PROGRAMS) >= 8


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_example_prints_what_it_says(name, where, tmp_path):
    env = dict(os.environ, PYGPUKIT_DEVICE=where)
    run = subprocess.run(
        [sys.executable, FOLDER / name], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    expected = (FOLDER / name).with_suffix(".txt").read_text()
    assert same_everywhere(run.stdout) == same_everywhere(expected)
    printed = [line for line in run.stdout.splitlines() if line.startswith("here:")]
    assert len(printed) == expected.count("here:")


def test_custom_kernel_says_why_it_was_not_launched(tmp_path):
    env = dict(os.environ, PYGPUKIT_NVRTC="off", PYGPUKIT_DEVICE="cpu")
    command = [sys.executable, FOLDER / "03_custom_kernel.py"]
    out = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    reason = next(line for line in out.splitlines() if line.startswith("here:"))
    assert any(
        text in reason for text in ("CUDA driver not detected", "NVRTC JIT compiler not available", "No GPU devices")
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_example_is_short_and_listed(name):
    text = (FOLDER / name).read_text()
    assert text.isascii()
    assert len(text.splitlines()) < 60
    assert f"({name})" in (FOLDER / "README.md").read_text()


def test_every_expected_output_has_its_program():
    assert sorted(path.with_suffix(".py").name for path in FOLDER.glob("*.txt")) == PROGRAMS
