"""Every family of operations at shapes nobody named, beside a peer: ``pygpukit bench --sweep``."""

from __future__ import annotations

from pygpukit.benchmark.sweep.families import FAMILIES, find_families
from pygpukit.benchmark.sweep.family import Case, Draw, Family, Input, Layer
from pygpukit.benchmark.sweep.run import LEAST_CASES, Outcome, Row, figures, record, run_sweep, save

__all__ = [
    "FAMILIES",
    "LEAST_CASES",
    "Case",
    "Draw",
    "Family",
    "Input",
    "Layer",
    "Outcome",
    "Row",
    "figures",
    "find_families",
    "record",
    "run_sweep",
    "save",
]
