"""Measures on the GPU of this machine, fixed shapes and random ones: a file in bench/results, and its limits."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLICES = 5  # of the families of the sweep


def sweep(out: Path) -> int:
    """Every family of operations at random shapes, in slices of at most 8 minutes, 6 of them measured."""
    seed, status = str(time.time_ns() % 2**32), 0
    for part in range(1, SLICES + 1):
        options = ["--seed", seed, "--slice", f"{part}/{SLICES}", "--save", out]
        try:
            status |= subprocess.run([sys.executable, ROOT / "bench/sweep.py", *options], timeout=480).returncode
        except subprocess.TimeoutExpired:
            print(f"error: slice {part}/{SLICES} of the sweep took more than 8 minutes")
            status = 1
    return status


def main() -> int:
    import pygpukit as gp

    if not gp.is_cuda_available():
        print("error: no GPU to measure on")
        return 1
    device = re.sub(r"[^a-z0-9]+", "-", gp.get_device_info().name.lower()).strip("-")
    out = ROOT / "bench" / "results" / f"{datetime.date.today().isoformat()}-{device}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, ROOT / "bench/measure.py", "--out", out, *sys.argv[1:]], check=True)
    wrong = 0 if sys.argv[1:] else sweep(out)
    return wrong | subprocess.run([sys.executable, ROOT / "tools/check_limits.py", out]).returncode


if __name__ == "__main__":
    sys.exit(main())
