"""One version, from one file, everywhere."""

import importlib.metadata
import pathlib
import subprocess
import sys

import pygpukit as gp
from pygpukit import _core

VERSION = (pathlib.Path(__file__).resolve().parents[2] / "VERSION").read_text().strip()


def test_package_metadata_and_library_agree():
    assert gp.__version__ == VERSION
    assert importlib.metadata.version("PyGPUkit") == VERSION
    assert _core._version() == VERSION


def test_command_line_prints_it():
    shown = subprocess.run([sys.executable, "-m", "pygpukit", "--version"], capture_output=True, text=True, check=True)
    assert VERSION in shown.stdout.split()


def test_the_only_hard_dependency_is_numpy():
    hard = [r for r in importlib.metadata.requires("PyGPUkit") if "extra ==" not in r]
    assert hard == ["numpy"]
