"""`make gpu-test`: builds, tests and measures in commands of at most 8 minutes, 25 minutes in all.

Each command is a target of the Makefile that can be run by itself, as `make gpu-bench PART=2/3`. Each gets its share of
what is left, ends by its own clock and names what it left out; what one leaves of its share the next ones have. Exit
status 0 when every command's was, and every limit holds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHOLE_S, COMMAND_S = 25 * 60.0, 8 * 60.0
GRACE_S = 10.0  # beyond its share, before a command is ended


@dataclass(frozen=True)
class Step:
    target: str
    parts: int
    most_s: float  # of one part


STEPS = (
    Step("gpu-build", 1, COMMAND_S),
    Step("gpu-cpp", 1, 150.0),
    Step("gpu-pytest", 2, 180.0),
    Step("gpu-bench", 3, COMMAND_S),
)
NEEDED = "gpu-build"  # without it nothing else can run

Start = Callable[[str, Mapping[str, str], float], int]


def run_steps(start: Start, seed: str, clock: Callable[[], float] = time.monotonic) -> list[str]:
    """Runs all. Gives those that failed."""
    until = clock() + WHOLE_S
    failed = []
    for step in STEPS:
        for part in range(1, step.parts + 1):
            left = until - clock()
            share = min(step.most_s, COMMAND_S, left / (step.parts - part + 1)) - GRACE_S
            name = f"{step.target} PART={part}/{step.parts}"
            if share <= 0:
                failed.append(f"{name}: left out, no time")
                continue
            variables = {"PART": f"{part}/{step.parts}", "SECONDS": f"{share:.0f}", "SEED": seed}
            if status := start(step.target, variables, share + GRACE_S):
                failed.append(f"{name}: status {status}")
                if step.target == NEEDED:
                    return failed
    return failed


def start(target: str, variables: Mapping[str, str], seconds: float) -> int:
    """`make` with these variables, ended with all it started when its time is over."""
    command = ["make", "--no-print-directory", target, *(f"{name}={value}" for name, value in variables.items())]
    print(f"-- {' '.join(command[2:])}", flush=True)
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"-- {target}: ended after {seconds:.0f} s", flush=True)
        return 124
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def result_since(begin_s: float, folder: Path = ROOT / "bench/results") -> Path | None:
    """The newest file of a GPU's figures that was written since then, by the clock of the files."""
    files = [path for path in folder.glob("*.json") if not path.stem.endswith("-host")]
    return max((path for path in files if path.stat().st_mtime >= begin_s), default=None)


def main() -> int:
    begin, begin_s = time.monotonic(), time.time()
    failed = run_steps(start, str(time.time_ns() % 2**32))
    result = result_since(begin_s)
    if result is None:
        failed.append("limits: nothing was measured")
    elif subprocess.run([sys.executable, ROOT / "tools/check_limits.py", result]).returncode:
        failed.append("limits: see above")
    for line in failed:
        print(f"-- failed: {line}")
    print(f"-- {(time.monotonic() - begin) / 60:.1f} minutes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
