"""Compares a file of measurements with bench/limits.json and bench/sweep_limits.json. Needs no GPU.

A result file is {"where": "gpu" or "host", "device": ..., "figures": {name: {"value": number}}}; no place means "gpu".
Every limit for that place must be measured and hold; `--only add_,sum_` looks at those whose names begin so.
A limit may name a `noise`: a figure of the same run that says how far a call differs from itself, 1 % at most. Two
calls that differ by less are equally fast. Exits 1 when one fails.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST_NOISE = 0.01
BENCH = Path(__file__).resolve().parent.parent / "bench"
LIMITS = (BENCH / "limits.json", BENCH / "sweep_limits.json")


@dataclass(frozen=True)
class Limit:
    name: str
    unit: str
    sense: str
    limit: float
    where: str
    issue: int
    noise: str = ""

    def holds(self, values: dict[str, float]) -> bool:
        value = values.get(self.name, math.nan)
        if not math.isfinite(value):
            return False
        spread = min(values.get(self.noise, 0.0), LARGEST_NOISE) if self.noise else 0.0
        return value <= self.limit * (1 + spread) if self.sense == "<=" else value >= self.limit * (1 - spread)


def read_limits(*paths: Path) -> list[Limit]:
    """Of these files; of both in bench/ where none is given."""
    limits = [Limit(**row) for path in paths or LIMITS for row in json.loads(path.read_text())]
    names = [limit.name for limit in limits]
    if len(set(names)) != len(names):
        raise ValueError("limits: a name stands twice")
    for limit in limits:
        if limit.sense not in ("<=", ">="):
            raise ValueError(f"limits: {limit.name}: sense must be <= or >=, got {limit.sense}")
    return limits


def read_results(path: Path) -> tuple[str, dict[str, float]]:
    """The place of measurement and its values."""
    data: dict[str, Any] = json.loads(path.read_text())
    return data.get("where", "gpu"), {name: float(figure["value"]) for name, figure in data["figures"].items()}


def check(
    limits: list[Limit], where: str, values: dict[str, float], only: tuple[str, ...] = ()
) -> tuple[list[str], int]:
    """Lines to print and how many limits fail."""
    lines, failures = [], 0
    for limit in limits:
        if limit.where != where or (only and not limit.name.startswith(only)):
            continue
        value = values.get(limit.name)
        ok = limit.holds(values)
        failures += not ok
        shown = "not measured" if value is None else f"{value:.3f}"
        verdict = "ok" if ok else "FAIL"
        lines.append(f"{limit.name:36} {limit.sense} {limit.limit:<7g} {shown:>12} {limit.unit:6} {verdict}")
    return lines, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="beginnings of names, separated by commas")
    arguments = parser.parse_args()
    where, values = read_results(arguments.file)
    lines, failures = check(read_limits(), where, values, tuple(filter(None, arguments.only.split(","))))
    print(f"{'name':36} {'limit':10} {'measured':>12} {'unit':6}")
    print("\n".join(lines))
    if not lines:
        print(f"no limit matches: {arguments.file} was measured at {where!r}")
        return 1
    print(f"{len(lines) - failures} of {len(lines)} limits hold")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
