"""Measures on the GPU of this machine within a time: the newest file of bench/results, and the limits of what it measured.

    python tools/measure.py [--part I/N] [--seconds 480] [--only GROUP,...] [--seed N]

Groups of bench/measure.py, the sweep over random shapes among them, run one after the other in one process; those that
were measured longest ago come first. A part has every N-th group. What is not begun within the time is named, comes
first the next time, and makes the exit status 1, as what fails and a limit that does not hold do. A file of a new day
begins with the figures of the device's last one, each with its date.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from check_limits import read_limits
from parts import part_of

ROOT = Path(__file__).resolve().parent.parent
BENCH, RESULTS = ROOT / "bench", ROOT / "bench" / "results"
SLICE_S = 480.0
CLOSING_S = 10.0  # of a slice, for what comes after the measurements
LEAST_S = 5.0  # in which it is worth to begin anything

Groups = Mapping[str, Mapping[str, Any]]  # what a file of results says of its groups
Start = Callable[[Sequence[str], float], int]  # measures groups for so many seconds; exit status


def in_turn(names: Sequence[str], known: Groups) -> list[str]:
    """Never measured ones, then by when they were."""
    return sorted(names, key=lambda name: str(known.get(name, {}).get("at", "")))


def alone(names: Sequence[str], apart: str) -> list[str]:
    """As many of the first as one process can measure: `apart` needs one of its own."""
    if names[0] == apart:
        return [apart]
    return list(names[: names.index(apart)]) if apart in names else list(names)


def measure(
    names: Sequence[str], read: Callable[[], Groups], start: Start, until: float, apart: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Measures groups until the time is over, in a new process where one ends early. Gives those that were not begun."""
    left, before = list(names), {name: dict(record) for name, record in read().items()}
    while left and until - clock() > LEAST_S:
        batch = alone(left, apart)
        status = start(batch, until - clock())
        known = read()
        begun = [name for name in batch if known.get(name, {}) != before.get(name, {})]
        left = [name for name in left if name not in begun]
        if not begun or (status == 0 and len(begun) < len(batch)):
            break  # it cannot begin, or time is over
    return left


def begin_file(out: Path, device: str) -> None:
    """A file of a new day holds what the device's last file does, each figure with its date."""
    if out.exists():
        return
    files = [json.loads(path.read_text()) for path in sorted(out.parent.glob("*.json"))]
    last = [data for data in files if data.get("where", "gpu") == "gpu" and data["device"].get("name") == device]
    if not last:
        return
    data = last[-1]
    figures = {name: {"date": data["date"], **figure} for name, figure in data["figures"].items()}
    out.write_text(json.dumps({**data, "figures": figures}, indent=1, sort_keys=True) + "\n")


def closing_lines(data: Mapping[str, Any], measured: Sequence[str], left: Sequence[str]) -> tuple[list[str], bool]:
    """What a slice says at its end, and whether all is well."""
    lines = []
    for name in measured:
        if fault := data["groups"][name].get("fault"):
            lines.append(f"failed: {name}: {fault}")
    values = {name: float(figure["value"]) for name, figure in data["figures"].items()}
    new = {figure for name in measured for figure in data["groups"][name].get("figures", [])}
    limits = [limit for limit in read_limits() if limit.name in new]
    outside = [limit for limit in limits if not limit.holds(values)]
    lines += [f"outside: {x.name} {values[x.name]:.3f}, limit {x.sense} {x.limit:g}" for x in outside]
    lines += [f"left out, no time: {', '.join(left)}"] if left else []
    good = not lines
    lines.append(f"{len(measured)} groups, {len(new)} figures, {len(limits) - len(outside)} of {len(limits)} limits hold")
    return lines, good


def main() -> int:
    until = time.monotonic() + SLICE_S
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="1/1", help="I/N")
    parser.add_argument("--seconds", type=float, default=SLICE_S, help="for all of it")
    parser.add_argument("--only", help="groups, separated by commas")
    parser.add_argument("--seed", default=str(time.time_ns() % 2**32), help="of the sweep (the clock)")
    options = parser.parse_args()
    until += options.seconds - SLICE_S - CLOSING_S
    sys.path.insert(0, str(BENCH))
    import measure as program
    import pygpukit as gp

    if not gp.is_cuda_available():
        print("error: no GPU to measure on")
        return 1
    names = part_of(options.only.split(",") if options.only else list(program.GROUPS), options.part)
    device = gp.get_device_info().name
    short = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    out = RESULTS / f"{datetime.date.today().isoformat()}-{short}.json"
    RESULTS.mkdir(parents=True, exist_ok=True)
    begin_file(out, device)

    def read() -> dict[str, Any]:
        data: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
        return {"figures": {}, "groups": {}, **data}

    def start(batch: Sequence[str], seconds: float) -> int:
        command = [sys.executable, BENCH / "measure.py", "--out", out, "--only", ",".join(batch), "--seed", options.seed]
        try:
            return subprocess.run([*command, "--seconds", str(seconds - LEAST_S)], timeout=seconds).returncode
        except subprocess.TimeoutExpired:
            print("-- stopped: it did not end by itself", flush=True)
            return 1

    left = measure(in_turn(names, read()["groups"]), lambda: read()["groups"], start, until, program.VENDOR)
    data = read()
    lines, good = closing_lines(data, [name for name in names if name not in left], left)
    print("\n".join([*lines, f"{out.relative_to(ROOT)}"]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
