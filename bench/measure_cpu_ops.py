"""Sweeps the operations of the CPU backend against NumPy in one process: `python bench/measure_cpu_ops.py --out ops.json`.

Families of operations at 10^3, 10^5 and 10^7 elements, in the dtypes they take, contiguous, strided and broadcast; both sides
write into a given array where NumPy can. The two take turns (ABAB) while the case has time left, each figure is the ratio of
the shortest turns: NumPy's time over ours. A family's figures are the geometric mean and the tenth percentile of its ratios;
the ten worst are printed. All takes a few minutes; --families, --cases and --sizes name a part.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("PYGPUKIT_NUM_THREADS", "2")
os.environ.setdefault("PYGPUKIT_DEVICE", "cpu")

import numpy as np

from cpu_figures import report
from cpu_op_cases import Call, families

SIZES = (10**3, 10**5, 10**7)
TURN_S = 0.001  # one contender's turn at least: short ones are seldom disturbed by other work of the machine
TURNS = 15
CASE_S = 0.2  # what a case's turns may take; slow ones have one
LIBRARY_PAUSE_S, LIBRARY_TURNS = 0.15, 5  # threads of NumPy's BLAS look out for work some 0.1 s before they sleep


@dataclass(frozen=True)
class Result:
    name: str
    size: int
    us: float
    numpy_us: float

    @property
    def ratio(self) -> float:
        return self.numpy_us / self.us


def turn(call: Callable[[], object], calls: int) -> float:
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls * 1e6


def measure(call: Call, size: int) -> Result:
    sides = (call.ours, call.theirs)
    counts, best, left = [0, 0], [math.inf, math.inf], CASE_S * 1e6
    for i, side in enumerate(sides):
        side()
        best[i] = turn(side, 1)
        counts[i] = max(1, min(2000, round(TURN_S * 1e6 / best[i])))
        left -= best[i]
    for _ in range(LIBRARY_TURNS if call.pauses else TURNS):
        if left < 0:
            break
        for i, side in enumerate(sides):
            if call.pauses and side is call.ours:
                time.sleep(LIBRARY_PAUSE_S)
            us = turn(side, counts[i])
            best[i], left = min(best[i], us), left - us * counts[i]
    return Result(call.name, size, best[0], best[1])


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def tenth(ratios: list[float]) -> float:
    return float(np.percentile(ratios, 10))


def selected(wanted: tuple[str, ...], name: str) -> bool:
    return not wanted or any(part in name for part in wanted)


def sweep(only: tuple[str, ...], cases: tuple[str, ...], sizes: tuple[int, ...]) -> Iterator[tuple[str, Result]]:
    for size in sizes:
        for family, calls in families(size):
            if only and family not in only:
                continue
            for call in calls:
                if selected(cases, call.name):
                    yield family, measure(call, size)


def figures(only: tuple[str, ...] = (), cases: tuple[str, ...] = (), sizes: tuple[int, ...] = SIZES) -> dict[str, object]:
    """{cpu_<family>_<size>_mean, ..._tenth: {"value": ...}} and, printed to stderr, each family's worst."""
    by_family: dict[tuple[str, int], list[Result]] = {}
    for family, result in sweep(only, cases, sizes):
        by_family.setdefault((family, result.size), []).append(result)
    out: dict[str, object] = {}
    for (family, size), results in by_family.items():
        ratios = [result.ratio for result in results]
        name = f"cpu_{family}_1e{round(math.log10(size))}"
        out[f"{name}_mean"] = {"value": round(mean(ratios), 3), "cases": len(ratios)}
        out[f"{name}_tenth"] = {"value": round(tenth(ratios), 3)}
        print(f"{name}: mean {mean(ratios):.2f}, tenth percentile {tenth(ratios):.2f}, {len(ratios)} cases", file=sys.stderr)
        for result in sorted(results, key=lambda r: r.ratio)[:10]:
            line = f"  {result.ratio:6.2f}  {result.name:44} {result.us:12.1f} us, NumPy {result.numpy_us:12.1f} us"
            print(line, file=sys.stderr)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as well, beside those the file has")
    parser.add_argument("--families", default="", help="these alone, separated by commas")
    parser.add_argument("--cases", default="", help="cases whose names hold one of these, separated by commas")
    parser.add_argument("--sizes", default="", help="these alone, separated by commas")
    options = parser.parse_args()
    split = [tuple(filter(None, text.split(","))) for text in (options.families, options.cases, options.sizes)]
    sizes = tuple(int(float(size)) for size in split[2]) or SIZES
    report(figures(split[0], split[1], sizes), options.out)


if __name__ == "__main__":
    main()
