"""The figures of linear algebra and of sorting, `linalg_*` and `sort_*`, against PyTorch: single matrices of 512 to 4096,
ten thousand small ones, arrays of 10^3 to 10^8 elements. Sizes between the ends are drawn by the clock. See measure.py.

Calls run in a row on the host's clock: neither side's factorisations can all be captured.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import Any

import contest
from contest import MANY_S, Call, Contest, geomean, size

LARGE = (512, 4096)
SMALL = (8, 32)
MATRICES = 10_000
SORTED = (1_000, 100_000_000)
DRAWN = 3  # sizes between the two ends

Function = Callable[..., Any]


def drawn(ends: tuple[int, int]) -> list[int]:
    """Both ends and sizes between them, as many in each power of two."""
    rng = random.Random(time.time_ns())
    low, high = ends
    between = [round(low * (high / low) ** rng.random()) for _ in range(DRAWN)]
    return [low, *sorted(between), high]


def definite(c: Contest, shape: tuple[int, ...]) -> Any:
    values = c.normal(shape, "float32")
    return c.gp.matmul(values, values.mT) / float(shape[-1]) + c.gp.eye(shape[-1], dtype="float32")


def contenders(c: Contest, op: str, x: Any) -> tuple[Call, Call]:
    """The operation by us and by torch on the same matrices."""
    gp, torch = c.gp, c.torch
    t = c.tensor(x)
    if op == "cholesky":
        return functools.partial(gp.linalg.cholesky, x), functools.partial(torch.linalg.cholesky_ex, t)
    if op == "solve":
        right = c.normal((*x.shape[:-1], 1), "float32")
        return functools.partial(gp.linalg.solve, x, right), functools.partial(
            torch.linalg.solve_ex, t, c.tensor(right)
        )
    return functools.partial(getattr(gp.linalg, op), x), functools.partial(getattr(torch.linalg, op), t)


def race(c: Contest, ours: Call, theirs: Call) -> dict[str, float]:
    from pygpukit.benchmark.timing import HostTimer

    return c.race(
        {
            "ours": lambda: [HostTimer([ours], c.gp.synchronize)],
            "torch": lambda: [HostTimer([theirs], c.peer.synchronize)],
        },
        MANY_S,
        rounds=contest.rounds_of_many(),
    )


def report_ratios(c: Contest, name: str, sizes: list[int], make: Callable[[int], tuple[Call, Call]]) -> None:
    """torch's time over ours: the least of all sizes is the figure."""
    with c.guard(name):
        us = {n: race(c, *make(n)) for n in sizes}
        ratios = [us[n]["torch"] / us[n]["ours"] for n in sizes]
        details = {str(n): [round(us[n]["ours"], 1), round(us[n]["torch"], 1)] for n in sizes}
        c.report.add(f"{name}_least", min(ratios), geomean=geomean(ratios), ours_and_torch_us=details, turn_s=c.turn_s)


def measure_factors(gp: Any, torch: Any, report: Any) -> None:
    c = Contest(gp, torch, report)
    sizes = drawn((size(LARGE[0]), size(LARGE[1])))
    for op in ("solve", "cholesky", "qr"):
        report_ratios(c, f"linalg_{op}_512_4096", sizes, lambda n, op=op: contenders(c, op, definite(c, (n, n))))
    # One block of the grid has a matrix of these: the figures are told, nothing is promised.
    for op in ("eigh", "svd"):
        report_ratios(c, f"linalg_{op}_256", [size(256)], lambda n, op=op: contenders(c, op, definite(c, (n, n))))


def measure_batches(gp: Any, torch: Any, report: Any) -> None:
    c = Contest(gp, torch, report)
    sizes, matrices = drawn(SMALL), size(MATRICES)
    for op in ("solve", "cholesky", "qr", "eigh", "svd"):
        report_ratios(c, f"linalg_{op}_10k", sizes, lambda n, op=op: contenders(c, op, definite(c, (matrices, n, n))))


def measure_sorts(gp: Any, torch: Any, report: Any) -> None:
    c = Contest(gp, torch, report)

    def make(op: str, n: int) -> tuple[Call, Call]:
        x = c.normal((n,), "float32")
        function: Function = getattr(torch, op)
        return functools.partial(getattr(gp, op), x), functools.partial(function, c.tensor(x), stable=True)

    sizes = drawn((SORTED[0], size(SORTED[1])))
    for op in ("sort", "argsort"):
        report_ratios(c, f"{op}_1e3_1e8", sizes, functools.partial(make, op))


GROUPS = {"linalg_factors": measure_factors, "linalg_batches": measure_batches, "sorts": measure_sorts}
