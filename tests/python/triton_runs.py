"""What the tests of pygpukit.triton share."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pygpukit.triton import triton_available

needs_triton = pytest.mark.skipif(not triton_available(), reason="needs the package triton")


def run(code, **settings):
    env = {**os.environ, "PYGPUKIT_DEVICE": "cpu", **settings}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
