"""Draws, checks, races and sums up."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pygpukit as gp
from pygpukit.benchmark.ceilings import num_copies
from pygpukit.benchmark.peers import Peer, find_peers
from pygpukit.benchmark.sweep.family import Case, Draw, Family, Layer
from pygpukit.benchmark.timing import IN_A_ROW, Call, Effort, Timer, own_timer, take_turns

__all__ = ["LEAST_CASES", "Outcome", "Row", "figures", "record", "run_sweep", "save", "summary"]

LEAST_CASES = 40  # of a family, for its figures to count
_TURN_US, _ROUNDS = 20e3, 3
_CPU_TURN_US = 200.0
_WORK_US, _SMALL_US = 20.0, 3.0

Race = Callable[[Sequence[Call], Sequence[Call]], tuple[float, float]]


@dataclass(frozen=True)
class Row:
    """One case: microseconds of ours and of the peer's call, and how far our result is from float64."""

    case: str
    us: float
    peer_us: float
    error: float
    bound: float
    fault: str = ""

    @property
    def wrong(self) -> bool:
        return not self.error <= self.bound

    @property
    def finding(self) -> str:
        return self.fault or f"error {self.error:.3g}, bound {self.bound:.3g}"

    @property
    def ratio(self) -> float:
        return self.peer_us / self.us

    @property
    def slow(self) -> bool:
        """Half as fast as the peer where there is work to do, or a small launch that takes noticeably longer."""
        return (self.us > _WORK_US and self.ratio < 0.5) or (self.peer_us < _SMALL_US and self.ratio < 1 / 1.15)


@dataclass
class Outcome:
    seed: int
    peer: str
    where: str  # gpu or host
    rows: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def wrong(self) -> list[str]:
        return [f"{name}: {row.case}: {row.finding}" for name, rows in self.rows.items() for row in rows if row.wrong]


class Contest:
    """Ours and a peer's calls on the same memory: torch on a GPU, NumPy on the CPU."""

    def __init__(self) -> None:
        self.on_gpu = gp.default_device().kind == "cuda"
        wanted = "torch" if self.on_gpu else "numpy"
        self.peer: Peer | None = next((peer for peer in find_peers()[0] if peer.name == wanted), None)
        self.name = wanted if self.peer is not None else "none"

    def peer_calls(self, family: Family, case: Case, sets: Sequence[Sequence[gp.GPUArray]]) -> list[Call]:
        if self.peer is None:
            return []
        if self.on_gpu:
            if isinstance(family.torch, Layer):
                return self._fastest_way(family.torch, case, sets)
            torch = importlib.import_module("torch")
            tensors = [[torch.from_dlpack(x) for x in xs] for xs in sets]
            return [functools.partial(family.torch, torch, ts, **case.options) for ts in tensors]
        return [functools.partial(family.numpy, [x.to_numpy() for x in xs], **case.options) for xs in sets]

    def _fastest_way(self, layer: Layer, case: Case, sets: Sequence[Sequence[gp.GPUArray]]) -> list[Call]:
        """Of the ways of the peer that take these inputs."""
        assert self.peer is not None
        made = [self.peer.layer_calls(layer.kind, dict(zip(layer.names, xs, strict=True)), case.options) for xs in sets]
        ways = {way: [calls[way] for calls in made] for way in made[0]}
        best = list(ways) if len(ways) == 1 else self.peer.near_fastest(ways)
        if not best:
            raise RuntimeError(f"{self.name} has no way for these inputs")
        return ways[best[0]]

    def race(self, ours: Sequence[Call], theirs: Sequence[Call], in_graph: bool = True) -> tuple[float, float]:
        """Median microseconds of one call of each, in turns: both in graphs, or neither."""
        gp.synchronize()
        timers: list[Timer] = []
        if theirs and self.peer is not None:
            timers.append(self.peer.timer(theirs) if in_graph else self.peer.row_timer(theirs))
            in_graph = in_graph and timers[0].clock != IN_A_ROW
        timers.insert(0, own_timer(ours, in_graph))
        effort = Effort(warmup=1, iterations=_ROUNDS, turn_us=_TURN_US if self.on_gpu else _CPU_TURN_US)
        medians = [samples.median for samples in take_turns(timers, effort)]
        return medians[0], medians[1] if len(medians) > 1 else math.nan


def _measure(family: Family, case: Case, seed: int, contest: Contest, race: Race) -> Row:
    try:
        first = [x.make(seed + i) for i, x in enumerate(case.inputs)]
        found = family.ours(first, None, **case.options)
        error, bound = family.error(first, family.pick(found), case.options)
        copies = num_copies(max(1, sum(x.nbytes for x in first)))
        sets = [first, *([x.make(seed + 64 * c + i) for i, x in enumerate(case.inputs)] for c in range(1, copies))]
        ours = [functools.partial(family.ours, xs, found, **case.options) for xs in sets]
        us, peer_us = race(ours, contest.peer_calls(family, case, sets))
        return Row(str(case), us, peer_us, error, bound)
    except Exception as fault:  # a case that fails is a finding; the others still run
        text = f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
        return Row(str(case), math.nan, math.nan, math.inf, 0.0, text)
    finally:
        family.done()


def run_sweep(
    families: Sequence[Family],
    seed: int,
    count: int = LEAST_CASES,
    seconds: float = 360.0,
    race: Race | None = None,
    say: Callable[[str], None] = lambda line: None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """`count` cases of each family, or as many as its share of the time allows. A family draws the same cases whichever
    others run."""
    contest = Contest()
    outcome = Outcome(seed, contest.name, "gpu" if contest.on_gpu else "host")
    start = clock()
    for index, family in enumerate(families):
        until = start + seconds * (index + 1) / len(families)
        rng = random.Random(f"{seed} {family.name}")
        rows: list[Row] = []
        for number in range(count):
            if clock() > until:
                say(f"-- {family.name}: out of time after {number} of {count} cases")
                break
            case = family.draw(Draw(rng, contest.on_gpu))
            compete = race or functools.partial(contest.race, in_graph=family.in_graph)
            rows.append(_measure(family, case, seed % 2**31 + 4096 * number, contest, compete))
        outcome.rows[family.name] = rows
        for line in _lines(family.name, rows, contest.name):
            say(line)
    return outcome


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Geometric mean, tenth percentile and number of the peer's times over ours."""
    ratios = [row.ratio for row in rows if math.isfinite(row.ratio) and row.ratio > 0]
    if not ratios:
        return {"mean": math.nan, "tenth": math.nan, "count": 0}
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    tenth = statistics.quantiles(ratios, n=10, method="inclusive")[0] if len(ratios) > 1 else ratios[0]
    return {"mean": mean, "tenth": tenth, "count": len(ratios)}


def _lines(name: str, rows: Sequence[Row], peer: str) -> list[str]:
    found = summary(rows)
    wrong, slow = [row for row in rows if row.wrong], [row for row in rows if row.slow]
    lines = [f"{name:20s} mean {found['mean']:.3f}  tenth {found['tenth']:.3f}  of {found['count']}"
             + (f"  slow: {len(slow)}" if slow else "") + (f"  WRONG: {len(wrong)}" if wrong else "")]  # fmt: skip
    worst = sorted((row for row in rows if math.isfinite(row.ratio)), key=lambda row: row.ratio)[:10]
    lines += [f"    {row.ratio:6.2f}  {row.us:9.1f} us, {peer} {row.peer_us:9.1f}  {row.case}" for row in worst]
    lines += [f"    wrong: {row.case}: {row.finding}" for row in wrong]
    return lines


def figures(outcome: Outcome) -> dict[str, dict[str, float]]:
    """What has limits, in the form of a file of measurements: families with too few cases have no figures."""
    found: dict[str, dict[str, float]] = {}
    for name, rows in outcome.rows.items():
        sums = summary(rows)
        if sums["count"] < LEAST_CASES:
            continue
        for what in ("mean", "tenth"):
            found[f"sweep_{name}_{what}"] = {"value": sums[what], "count": sums["count"], "seed": outcome.seed}
    return found


def record(outcome: Outcome, data: dict[str, Any]) -> None:
    """Figures and cases into what a file of measurements holds; what is of others stays."""
    data["figures"].update(figures(outcome))
    for name, rows in outcome.rows.items():
        cases = [{key: value for key, value in dataclasses.asdict(row).items() if _is_told(value)} for row in rows]
        data.setdefault("sweep", {})[name] = {"seed": outcome.seed, "peer": outcome.peer, "cases": cases}


def save(outcome: Outcome, path: Path) -> None:
    """Into a file of measurements."""
    data: dict[str, Any] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"figures": {}, "where": outcome.where}
    )
    record(outcome, data)
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")


def _is_told(value: object) -> bool:
    return bool(value) and not (isinstance(value, float) and not math.isfinite(value))
