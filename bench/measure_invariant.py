"""What `batch_invariant` costs, `mm_invariant_*`: the time of a product by default over its time under that level.

Weights [n, k] of three layers; the smallest ratio of them counts. Below 256 rows the default may take kernels with an
order of their own.
"""

from __future__ import annotations

import functools
from typing import Any

from contest import CLOSE_S, MANY_S, Call, Contest, rounds_of_many, size
from measure_gemv import FORMATS, quantise, quantised_calls

SHAPES = ((3584, 4608), (4096, 28672), (14336, 4096))  # k, n
ROWS = {"bf16": (1, 8, 16, 32, 64, 256, 2048), "w8a16": (1, 8, 16, 32, 64, 256), "w8a8": (1, 8, 16, 32, 64, 256, 2048)}
MANY_ROWS = 256
GOALS = {False: 0.893, True: 0.952}  # at most 12 % for few rows, 5 % for many


def invariant(c: Contest, call: Call) -> Any:
    with c.gp.determinism("batch_invariant"):
        return call()


def calls_of(c: Contest, name: str, m: int, weights: list[Any], stored: list[Any]) -> list[Call]:
    """A call per copy of the weights."""
    n, k = weights[0].shape
    out = c.gp.zeros((m, n), dtype="bfloat16")
    acts = [c.normal((m, k), "bfloat16")]
    if name != "bf16":
        return quantised_calls(c, FORMATS[name], acts, stored, out)
    return [functools.partial(c.gp.matmul, acts[0], w.T, out=out) for w in weights]


def measure_shape(c: Contest, k: int, n: int) -> dict[str, dict[str, float]]:
    """{"bf16_m1": microseconds of each level}."""
    kk, nn = size(k), size(n)
    weights = [c.normal((nn, kk), "bfloat16") for _ in range(c.copies(2 * kk * nn))]
    found: dict[str, dict[str, float]] = {}
    for name, rows in ROWS.items():
        stored = [] if name == "bf16" else quantise(c, FORMATS[name], weights)
        for m in rows:
            label = f"mm_invariant_{name}_m{m}"
            with c.guard(f"{label} {k}x{n}"):
                calls = calls_of(c, name, m, weights, stored)
                other = [functools.partial(invariant, c, call) for call in calls_of(c, name, m, weights, stored)]
                contenders = {"default": lambda: c.ours(calls), "invariant": lambda: c.ours(other)}
                us = c.race(contenders, MANY_S if m < MANY_ROWS else CLOSE_S, rounds_of_many())
                found[label] = {"us": us["invariant"], "default_us": us["default"]}
    return found


def measure(gp: Any, torch: Any, report: Any) -> None:
    c = Contest(gp, torch, report)
    times: dict[str, dict[str, dict[str, float]]] = {}
    for k, n in SHAPES:
        with c.guard(f"mm_invariant {k}x{n}"):
            for label, us in measure_shape(c, k, n).items():
                times.setdefault(label, {})[f"{k}x{n}"] = us
    report.add("mm_invariant_shapes", len(times), shapes=times)
    for name, rows in ROWS.items():
        for m in rows:
            label = f"mm_invariant_{name}_m{m}"
            shapes = times.get(label, {})
            if len(shapes) == len(SHAPES):
                ratios = {shape: us["default_us"] / us["us"] for shape, us in shapes.items()}
                worst = min(ratios, key=lambda shape: ratios[shape])
                details = {"shape": worst, **shapes[worst], "goal": GOALS[m >= MANY_ROWS], "turn_s": c.turn_s}
                report.add(f"{label}_min_vs_default", ratios[worst], **details)
