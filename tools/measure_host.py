"""Times `make run`, `make test` and `make test` again in a fresh clone, and writes bench/results/<date>-host.json.

Then measures the CPU backend with what was built. The clone has no .venv, no build folder and a compiler cache of its
own. Checks the limits for the host. `--cpu FILE` times nothing: it puts what bench/measure_cpu.py wrote there, part by
part, in the place of such figures of the newest file; the others keep the day they were measured.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


RESULTS = ROOT / "bench" / "results"


def write_results(figures: dict[str, dict[str, object]]) -> int:
    """Writes today's file. Gives what the limits say."""
    out = RESULTS / f"{datetime.date.today().isoformat()}-host.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    device = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    out.write_text(json.dumps({"where": "host", "device": device, "figures": figures}, indent=1, sort_keys=True) + "\n")
    return subprocess.run([sys.executable, ROOT / "tools/check_limits.py", out]).returncode


def newest_figures() -> dict[str, dict[str, object]]:
    files = sorted(RESULTS.glob("*-host.json"))
    if not files:
        return {}
    known: dict[str, dict[str, object]] = json.loads(files[-1].read_text())["figures"]
    return {name: {"measured": files[-1].name[:10], **figure} for name, figure in known.items()}


def measure_clone() -> dict[str, dict[str, object]]:
    folder = Path(tempfile.mkdtemp(prefix="fresh-clone-"))
    clone = folder / "clone"
    figures: dict[str, dict[str, object]] = {}
    env = dict(os.environ, CCACHE_DIR=str(folder / "ccache"))

    def timed(name: str, *command: str) -> None:
        began = time.monotonic()
        subprocess.run(command, cwd=clone, env=env, check=True)
        figures[name] = {"value": round((time.monotonic() - began) / 60, 2), "command": " ".join(command)}

    try:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        timed("make_run_minutes", "make", "run")
        subprocess.run(["make", "clean"], cwd=clone, env=env, check=True)
        shutil.rmtree(folder / "ccache", ignore_errors=True)
        timed("make_test_minutes", "make", "test")
        timed("make_test_again_minutes", "make", "test")
        cpu = folder / "cpu.json"
        measure = [sys.executable, "tools/dev.py", "exec", "--", "python", "bench/measure_cpu.py", "--out", str(cpu)]
        subprocess.run(measure, cwd=clone, env=env, check=True)
        figures.update(json.loads(cpu.read_text()))
        subprocess.run(["make", "wheel"], cwd=clone, env=env, check=True)
        wheel = next((clone / "dist").glob("*.whl"))
        figures["wheel_mb"] = {"value": round(wheel.stat().st_size / 1e6, 2), "file": wheel.name}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", type=Path, metavar="FILE", help="figures of bench/measure_cpu.py")
    options = parser.parse_args()
    if options.cpu:
        return write_results(newest_figures() | json.loads(options.cpu.read_text()))
    return write_results(measure_clone())


if __name__ == "__main__":
    sys.exit(main())
