"""The figures of matrix-vector products, `mm_gemv_*`: one row of bfloat16 by weights [n, k] in every format.

Contenders: ours, torch's bfloat16 product, and a kernel that only reads as many bytes (weights and scales), the ceiling.
It starts when the one before it has ended, where ours may start early: that microsecond is part of our share.
A call per copy of the weights; up to 32 rows beside one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contest import POWER_S, Call, Contest, geomean, size

SHAPES = (  # k, n; those above 100 MB in bfloat16 are limited in their share of the ceiling
    (4096, 4096), (4096, 14336), (14336, 4096), (8192, 8192), (8192, 29568), (29568, 8192), (3584, 18944), (18944, 3584),
    (3584, 3584), (3584, 512),
)  # fmt: skip
LARGE = [(k, n) for k, n in SHAPES if 2 * k * n > 100e6]
ROWS = (8, 16, 32)
# One row is at the chip's power limit already: docs/matrix-products.md says what further ones take.
POWER_BOUND = {("w8a16", 16): 0.87, ("w8a16", 32): 0.77}
ROUNDS = 3  # of long turns: formats and rows draw different power


@dataclass(frozen=True)
class Format:
    """How weights are kept, how far the result may be from bfloat16's, and what is aimed at on the large shapes."""

    quantize: Callable[[Any, Any], Any]  # gp, weights -> codes, scales...
    bound: float
    read_goal: float
    torch_goal: float | None = None  # None: there is a limit
    quantize_row: bool = False


FORMATS = {
    "w8a16": Format(lambda gp, w: gp.quantize(w, "fp8_e4m3", block="row"), 0.08, 0.85, 1.5),
    "w8a8": Format(lambda gp, w: gp.quantize(w, "fp8_e4m3", block="row"), 0.10, 0.85, 1.5, quantize_row=True),
    "int4": Format(lambda gp, w: gp.quantize(w, "int4", block=128), 0.30, 0.75, 2.2),
    "nvfp4": Format(lambda gp, w: gp.quantize(w, "nvfp4"), 0.25, 0.75, 2.2),
}


def quantise(c: Contest, form: Format, weights: list[Any]) -> list[Any]:
    """Enough copies of (codes, scales...)."""
    first = form.quantize(c.gp, weights[0])
    count = c.copies(sum(array.nbytes for array in first))
    return [first, *(form.quantize(c.gp, weights[i % len(weights)]) for i in range(1, count))]


def quantised_calls(c: Contest, form: Format, rows: list[Any], stored: list[Any], out: Any) -> list[Call]:
    calls: list[Call] = []
    for i, (codes, scale, *whole) in enumerate(stored):
        row, row_scale = rows[i % len(rows)], None
        if form.quantize_row:
            row, row_scale = c.gp.quantize(row, "fp8_e4m3", block="row")
        options = {"tensor_scale_b": whole[0]} if whole else {}
        calls.append(functools.partial(c.gp.scaled_matmul, row, codes, row_scale, scale, out=out, **options))
    return calls


def torch_int4_calls(c: Contest, k: int, n: int, group: int = 128) -> list[Call]:
    """torch's own product of bfloat16 by packed int4."""
    torch = c.torch
    row = torch.randn(1, k, dtype=torch.bfloat16, device="cuda")
    calls: list[Call] = []
    for _ in range(c.copies(n * k // 2)):
        codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
        packed = torch.ops.aten._convert_weight_to_int4pack(codes, 8)
        scales = torch.rand(k // group, n, 2, dtype=torch.bfloat16, device="cuda")
        calls.append(functools.partial(torch.ops.aten._weight_int4pack_mm, row, packed, group, scales))
    c.peer.synchronize()
    return calls


def measure_shape(c: Contest, k: int, n: int) -> dict[str, float]:
    """Microseconds of each contender, by its name; `read_*` is the ceiling of a format."""
    gp = c.gp
    label = f"mm_gemv_{k}x{n}"
    kk, nn = size(k), size(n)
    weights = [c.normal((nn, kk), "bfloat16") for _ in range(c.copies(2 * kk * nn))]
    rows = [c.normal((1, kk), "bfloat16") for _ in weights]
    out, other = (gp.zeros((1, nn), dtype="bfloat16") for _ in range(2))
    target = c.tensor(other)
    contenders: dict[str, Any] = {}

    def enter(name: str, make: Callable[[], Any]) -> None:
        contenders[f"{label} {name}"] = make

    ours = [functools.partial(gp.matmul, x, w.T, out=out) for x, w in zip(rows, weights, strict=True)]
    theirs = [
        functools.partial(c.torch.mm, c.tensor(x), c.tensor(w).t(), out=target)
        for x, w in zip(rows, weights, strict=True)
    ]
    gp.synchronize()
    c.agree(ours[0], theirs[0], 1e-2)
    enter("bf16", lambda: c.ours(ours))
    enter("torch", lambda: c.theirs(theirs))
    enter("read_bf16", lambda: c.reader(weights[0].nbytes))
    results = gp.zeros((max(ROWS), nn), dtype="bfloat16")
    many = c.normal((max(ROWS), kk), "bfloat16")
    for m in ROWS if (k, n) in LARGE else ():
        calls = [functools.partial(gp.matmul, many[:m], w.T, out=results[:m]) for w in weights]
        enter(f"bf16_m{m}", functools.partial(c.ours, calls))
    for name, form in FORMATS.items():
        with c.guard(f"{label} {name}"):
            result = gp.zeros((1, nn), dtype="bfloat16")
            stored = quantise(c, form, weights)
            quantised = quantised_calls(c, form, rows, stored, result)
            c.agree(quantised[0], theirs[0], form.bound)
            enter(name, functools.partial(c.ours, quantised))
            enter(f"read_{name}", functools.partial(c.reader, sum(array.nbytes for array in stored[0])))
            if name == "w8a16" and (k, n) in LARGE:
                for m in ROWS:
                    some = quantised_calls(c, form, [many[:m]], stored, results[:m])
                    enter(f"w8a16_m{m}", functools.partial(c.ours, some))
    if (k, n) in LARGE:
        enter("torch_int4", lambda: c.theirs(torch_int4_calls(c, kk, nn)))
    return {name.split()[1]: us for name, us in c.race(contenders, POWER_S, ROUNDS).items()}


def measure(gp: Any, torch: Any, report: Any) -> None:
    c = Contest(gp, torch, report)
    times: dict[tuple[int, int], dict[str, float]] = {}
    for k, n in SHAPES:
        with c.guard(f"mm_gemv_{k}x{n}"):
            times[k, n] = measure_shape(c, k, n)
    for (k, n), us in times.items():
        with c.guard(f"mm_gemv_bf16_{k}x{n}"):
            c.add_ratio(f"mm_gemv_bf16_{k}x{n}_vs_torch", us["bf16"], us["torch"])
            ceiling = us["read_bf16"]
            details = {"us": us["bf16"], "read_us": ceiling, "turn_s": c.turn_s}
            report.add(f"mm_gemv_bf16_{k}x{n}_vs_read", ceiling / us["bf16"], **details)
    with c.guard("mm_gemv_bf16_geomean"):
        ratios = [times[s]["torch"] / times[s]["bf16"] for s in SHAPES]
        report.add("mm_gemv_bf16_geomean_vs_torch", geomean(ratios), turn_s=c.turn_s)
    for name in ("bf16", *FORMATS):
        shapes = {
            f"{k}x{n}": {"us": us[name], "vs_torch": us["torch"] / us[name], "vs_read": us[f"read_{name}"] / us[name]}
            for (k, n), us in times.items()
            if {name, f"read_{name}", "torch"} <= us.keys()
        }
        report.add(f"mm_gemv_{name}_shapes", len(shapes), shapes=shapes)
    for name, form in FORMATS.items():
        goal = {} if form.torch_goal is None else {"goal": form.torch_goal}
        add_worst(c, f"mm_gemv_{name}_min_vs_torch_bf16", times, "torch", name, **goal)
        add_worst(c, f"mm_gemv_{name}_min_vs_read", times, f"read_{name}", name, goal=form.read_goal)
    add_worst(c, "mm_gemv_int4_min_vs_torch_int4", times, "torch_int4", "int4", goal=1.5)
    for name in ("bf16", "w8a16"):
        for m in ROWS:
            goal = POWER_BOUND.get((name, m), 0.9)
            add_worst(c, f"mm_gemv_{name}_m{m}_min_vs_m1", times, name, f"{name}_m{m}", goal=goal)


def add_worst(
    c: Contest, name: str, times: dict[tuple[int, int], dict[str, float]], peer: str, ours: str, **details: float
) -> None:
    """The smallest ratio over the large shapes, every one of which must have been measured."""
    with c.guard(name):
        ratios = {(k, n): times[k, n][peer] / times[k, n][ours] for k, n in LARGE}
        k, n = min(ratios, key=lambda shape: ratios[shape])
        c.report.add(name, ratios[k, n], shape=f"{k}x{n}", us=times[k, n][ours], turn_s=c.turn_s, **details)
