"""A few seconds of the calls that `make fuzz-api` makes for hours."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent.parent / "tools" / "fuzz_api.py"
CALLS = 6000


@pytest.mark.skipif(os.name == "nt", reason="calls are ended by POSIX signals")
def test_hostile_calls_are_refused_or_answered():
    seed = os.environ.get("FUZZ_SEED") or str(int(time.time()))
    command = [sys.executable, str(TOOL), "--calls", str(CALLS), "--seed", seed, "--most-failures", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"FUZZ_SEED={seed}\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
    assert f"{CALLS} calls, 0 failures" in done.stdout


def test_every_op_is_among_the_calls():
    import pygpukit as gp

    done = subprocess.run([sys.executable, str(TOOL), "--list"], capture_output=True, text=True, check=True)
    called = {line.rpartition(".")[2] for line in done.stdout.splitlines()}
    assert len(called) > 800
    assert not set(gp.ops.__all__) - called
    assert {name for name in dir(gp.GPUArray) if not name.startswith("_")} <= called
