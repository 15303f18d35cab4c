"""A driver library made for the tests: the package opens it in place of NVIDIA's, so its start can be tested anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "support" / "fake_libcuda.c"


def build(folder: Path) -> Path:
    """Compiles it as libcuda.so.1 and returns the folder to put on LD_LIBRARY_PATH."""
    compiler = next((c for c in (os.environ.get("CC", "cc").split()[0], "cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("needs a C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(SOURCE)], check=True)
    return folder


def run(folder: Path, code: str, **settings: str) -> str:
    """Output of a program that finds the library. `settings` are environment variables."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), **settings}
    for name in ("PYGPUKIT_DEVICE", "CUDA_DEVICE_MAX_CONNECTIONS"):
        if name not in settings:
            env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
