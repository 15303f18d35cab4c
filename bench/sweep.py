"""Products at shapes nobody named, beside torch: shapes are drawn by a seed, which is the clock's unless --seed gives one.

    python bench/sweep.py [--seed N] [--count N] [--only FAMILY,...] [--out FILE] [--seconds S]

For every family: the geometric mean, the tenth percentile and the worst of torch's time over ours, and its ten worst
shapes. Every drawn product is checked against torch's, and one in four against float64. Limits (sweep_limits.json) are
on means and percentiles, never on a shape. Exits with 1 where a limit does not hold or a result is wrong.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from contest import Contest, geomean

ROWS_OF_FEW, ROWS_OF_MANY = (1, 64), (65, 6000)
K_RANGE, N_RANGE = (1024, 16384), (512, 32768)
BOUND = 1.5e-2  # by norms; 16-bit results, weights of 8 bits or dequantised
TURN_S = 0.01
FORMATS: dict[str, dict[str, Any]] = {
    "fp8_128x128": {"format": "fp8_e4m3", "block": (128, 128)},
    "int8_row": {"format": "int8", "block": "row"},
    "int4_128": {"format": "int4", "block": 128},
    "nvfp4": {"format": "nvfp4"},
}


def log_uniform(rng: random.Random, low: int, high: int, step: int = 1) -> int:
    return max(low, round(math.exp(rng.uniform(math.log(low), math.log(high))) / step) * step)


class Quiet:
    """Where a Contest notes faults."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}


def exact_error(c: Contest, x: Any, w: Any, got: Any) -> float:
    """By norms, of the first rows of a product of what torch holds in 16 bits, in float64."""
    rows = min(4, x.shape[0])
    wanted = c.tensor(x)[:rows].double() @ c.tensor(w).double().T
    return float((c.tensor(got)[:rows].double() - wanted).norm() / wanted.norm())


def inputs(c: Contest, m: int, n: int, k: int) -> tuple[list[Any], list[Any], Any, Any]:
    count = c.copies(2 * (m * k + n * k))
    acts = [c.normal((m, k), "bfloat16") for _ in range(count)]
    weights = [c.normal((n, k), "bfloat16") for _ in range(count)]
    out, other = (c.gp.zeros((m, n), dtype="bfloat16") for _ in range(2))
    return acts, weights, out, other


def torch_products(c: Contest, acts: list[Any], weights: list[Any], out: Any) -> list[Callable[[], Any]]:
    target = c.tensor(out)
    return [functools.partial(c.torch.mm, c.tensor(x), c.tensor(w).T, out=target)
            for x, w in zip(acts, weights, strict=True)]  # fmt: skip


def dense(c: Contest, name: str, m: int, n: int, k: int, checked: bool) -> dict[str, float]:
    """linear and matmul of the same operands, beside torch."""
    gp = c.gp
    acts, weights, out, other = inputs(c, m, n, k)
    pairs = list(zip(acts, weights, strict=True))
    linear = [functools.partial(gp.linear, x, w, out=out) for x, w in pairs]
    matmul = [functools.partial(gp.matmul, x, w.T, out=out) for x, w in pairs]
    theirs = torch_products(c, acts, weights, other)
    c.agree(linear[0], theirs[0], BOUND)
    if checked and exact_error(c, acts[0], weights[0], out) > BOUND:
        raise AssertionError("linear differs from float64")
    us = c.race({"linear": lambda: c.ours(linear), "matmul": lambda: c.ours(matmul),
                 "torch": lambda: c.theirs(theirs)}, TURN_S, 3)  # fmt: skip
    return {"us": us["linear"], "torch_us": us["torch"], "matmul_us": us["matmul"]}


def quantised(c: Contest, name: str, m: int, n: int, k: int, checked: bool) -> dict[str, float]:
    """A layer with quantised weights beside torch's bfloat16 product of the same size."""
    gp = c.gp
    acts, weights, out, other = inputs(c, m, n, k)
    options = dict(FORMATS[name])
    form = options.pop("format")
    packed = [gp.Weight.quantize(w, form, **options) for w in weights]
    ours = [functools.partial(gp.linear, x, w, out=out) for x, w in zip(acts, packed, strict=True)]
    numbers = packed[0].dense("bfloat16")
    c.agree(ours[0], torch_products(c, acts[:1], [numbers], other)[0], BOUND)
    if checked and exact_error(c, acts[0], numbers, out) > BOUND:
        raise AssertionError("linear differs from float64")
    theirs = torch_products(c, acts, weights, other)
    us = c.race({"linear": lambda: c.ours(ours), "torch": lambda: c.theirs(theirs)}, TURN_S, 3)
    return {"us": us["linear"], "torch_us": us["torch"], "codes_mb": packed[0].nbytes / 1e6}


def draw(rng: random.Random, family: str) -> tuple[int, int, int]:
    step = 128 if family in FORMATS or family.startswith("few_") else 8
    k = log_uniform(rng, *K_RANGE, step)
    n = log_uniform(rng, *N_RANGE, 128 if step == 128 else 8)
    if family == "linear_few_rows":
        return rng.randint(*ROWS_OF_FEW), n, k
    if family == "linear_many_rows":
        return log_uniform(rng, *ROWS_OF_MANY), n, k
    if family.startswith("few_"):
        while n * k * (0.5 if family in ("few_int4_128", "few_nvfp4") else 1) < 16e6:
            k, n = log_uniform(rng, *K_RANGE, step), log_uniform(rng, *N_RANGE, 128)
        return rng.randint(1, 8), n, k
    return log_uniform(rng, 16, 2048), n, k


def families() -> list[str]:
    return ["linear_many_rows", "linear_few_rows", *FORMATS, *(f"few_{name}" for name in FORMATS)]


def run_family(c: Contest, family: str, count: int, rng: random.Random, until: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    name = family.removeprefix("few_")
    measure = quantised if name in FORMATS else dense
    for i in range(count):
        m, n, k = draw(rng, family)
        if time.monotonic() > until:
            print(f"-- {family}: out of time after {len(rows)} shapes", flush=True)
            break
        row = {"m": m, "n": n, "k": k, **measure(c, name, m, n, k, i % 4 == 0)}
        rows.append({**row, "ratio": row["torch_us"] / row["us"]})
    return rows


def summarise(ratios: list[float]) -> dict[str, float]:
    tenth = statistics.quantiles(ratios, n=10)[0] if len(ratios) > 1 else ratios[0]
    return {"geomean": geomean(ratios), "tenth": tenth, "least": min(ratios), "count": len(ratios)}


def figures(family: str, rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """What has limits: all rows of a family, and where a limit depends on their number, those."""
    found = {family: summarise([r["ratio"] for r in rows])}
    if family == "linear_few_rows":
        found[f"{family}_by_matmul"] = summarise([r["matmul_us"] / r["us"] for r in rows])
    if family in FORMATS:
        for part, wanted in (("below_64", lambda m: m < 64), ("from_64", lambda m: m >= 64)):
            ratios = [r["ratio"] for r in rows if wanted(r["m"])]
            if ratios:
                found[f"{family}_{part}"] = summarise(ratios)
    return found


def breaches(results: dict[str, dict[str, float]], limits: dict[str, dict[str, float]]) -> list[str]:
    return [f"{name}: {what} {results[name][what]:.3f}, limit {limit}"
            for name, wanted in limits.items() if name in results
            for what, limit in wanted.items() if results[name][what] < limit]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=360.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    import torch

    import pygpukit as gp

    wanted = args.only.split(",") if args.only else families()
    c = Contest(gp, torch, Quiet())
    print(f"-- seed {args.seed}", flush=True)
    until = time.monotonic() + args.seconds
    results: dict[str, dict[str, float]] = {}
    shapes: dict[str, list[dict[str, Any]]] = {}
    for family in wanted:
        # A family draws the same shapes whichever others run.
        rng = random.Random(f"{args.seed} {family}")
        shapes[family] = run_family(c, family, args.count, rng, until)
        if not shapes[family]:
            continue
        results.update(figures(family, shapes[family]))
        for name, row in figures(family, shapes[family]).items():
            print(f"{name:32s} mean {row['geomean']:.3f}  tenth {row['tenth']:.3f}  least {row['least']:.3f}  "
                  f"of {row['count']:.0f}", flush=True)  # fmt: skip
        for r in sorted(shapes[family], key=lambda r: r["ratio"])[:10]:
            print(f"    {r['m']:5d} x {r['k']:6d} by {r['n']:6d}: {r['us']:9.1f} us, torch {r['torch_us']:9.1f}, "
                  f"{r['ratio']:.2f}", flush=True)  # fmt: skip
    if args.out:
        args.out.write_text(json.dumps({"seed": args.seed, "results": results, "shapes": shapes}, indent=1) + "\n")
    limits = json.loads((pathlib.Path(__file__).parent / "sweep_limits.json").read_text())
    found = breaches(results, limits)
    for line in found:
        print(f"-- below its limit: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
