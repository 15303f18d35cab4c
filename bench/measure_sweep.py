"""The families of the sweep over random shapes, `sweep_*`, in slices: one seed takes six minutes. See sweep.py."""

from __future__ import annotations

import functools
import time
from typing import Any

SLICES, SECONDS = 5, 360.0
SEED = time.time_ns() % 2**32  # measure.py may set another


def measure(gp: Any, torch: Any, report: Any, part: int) -> None:
    from pygpukit.benchmark.sweep import find_families, record, run_sweep

    print(f"-- seed {SEED}", flush=True)
    families = find_families(part=f"{part}/{SLICES}")
    outcome = run_sweep(families, SEED, seconds=SECONDS / SLICES, say=functools.partial(print, flush=True))
    record(outcome, report.data)
    report.save()
    if outcome.wrong:
        raise AssertionError(f"{len(outcome.wrong)} wrong results: {outcome.wrong[0]}")


GROUPS = {f"sweep_{part}": functools.partial(measure, part=part) for part in range(1, SLICES + 1)}
