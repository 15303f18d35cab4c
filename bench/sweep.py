"""Every family of operations at shapes nobody named, beside torch: `pygpukit bench --sweep`, and its limits.

    python bench/sweep.py [--seed N] [--count N] [--only FAMILY,...] [--slice I/N] [--seconds S] [--save FILE]

Shapes, dtypes, strides and alignments are drawn by the seed, which is the clock's unless --seed gives one. Limits
(sweep_limits.json) are on means and tenth percentiles, never on a shape. Exits with 1 where a limit does not hold, a
family with a limit has too few cases, or a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import tempfile
from typing import Any

LIMITS = pathlib.Path(__file__).parent / "sweep_limits.json"


def breaches(figures: dict[str, Any], ran: list[str], limits: list[dict[str, Any]]) -> list[str]:
    """Limits of the families that ran, which do not hold."""
    found = []
    for limit in limits:
        family = limit["name"].removeprefix("sweep_").rpartition("_")[0]
        if family not in ran:
            continue
        value = figures.get(limit["name"], {}).get("value")
        if value is None:
            found.append(f"{limit['name']}: too few cases to tell")
        elif not value >= limit["limit"]:
            found.append(f"{limit['name']}: {value:.3f}, limit {limit['limit']}")
    return found


def main(arguments: list[str]) -> int:
    from pygpukit.cli import main as pygpukit

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("-h", "--help", action="store_true")
    given, others = parser.parse_known_args(arguments)
    if given.help:
        print(__doc__)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = given.save or pathlib.Path(folder) / "sweep.json"
        status = pygpukit(["bench", "--sweep", *others, "--save", str(path)])
        if status == 2:
            return 2
        saved = json.loads(path.read_text())
    found = breaches(saved["figures"], list(saved["sweep"]), json.loads(LIMITS.read_text()))
    for line in found:
        print(f"-- below its limit: {line}")
    return 1 if found else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
