"""Measures on the GPU of this machine, writes bench/results/<date>-<device>.json and checks the limits."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    import pygpukit as gp

    if not gp.is_cuda_available():
        print("error: no GPU to measure on")
        return 1
    device = re.sub(r"[^a-z0-9]+", "-", gp.get_device_info().name.lower()).strip("-")
    out = ROOT / "bench" / "results" / f"{datetime.date.today().isoformat()}-{device}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, ROOT / "bench/measure.py", "--out", out, *sys.argv[1:]], check=True)
    return subprocess.run([sys.executable, ROOT / "tools/check_limits.py", out]).returncode


if __name__ == "__main__":
    sys.exit(main())
