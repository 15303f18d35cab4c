"""Timers for the figures: GPU time by events, submit time by the host clock, contenders interleaved."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any


def gpu_times_us(gp: Any, calls: list[Callable[[], Any]], repeats: int = 12, inner: int = 4) -> list[float]:
    """Median microseconds of one call of each contender on our stream, taken in turns.

    A call before the first event keeps the device busy while the rest is submitted.
    """
    samples: list[list[float]] = [[] for _ in calls]
    for call in calls:
        for _ in range(3):
            call()
    gp.synchronize()
    for _ in range(repeats):
        for index, call in enumerate(calls):
            samples[index].append(ours_us(gp, call, inner))
    return [statistics.median(s) for s in samples]


def ours_us(gp: Any, call: Callable[[], Any], inner: int) -> float:
    start, stop = gp.CudaEvent(), gp.CudaEvent()
    call()
    start.record()
    for _ in range(inner):
        call()
    stop.record()
    stop.synchronize()
    return float(gp.event_elapsed_us(start, stop)) / inner


def torch_us(torch: Any, call: Callable[[], Any], inner: int) -> float:
    from pygpukit.benchmark import peers

    call()
    return peers.torch_us(torch, call, inner)


def against_torch_us(
    gp: Any, torch: Any, ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int = 15, inner: int = 4
) -> tuple[float, float]:
    """Median microseconds of ours and of torch's call, in turns, each timed by its own library's events."""
    for _ in range(3):
        ours()
        theirs()
    gp.synchronize()
    torch.cuda.synchronize()
    a: list[float] = []
    b: list[float] = []
    for _ in range(repeats):
        a.append(ours_us(gp, ours, inner))
        b.append(torch_us(torch, theirs, inner))
    return statistics.median(a), statistics.median(b)


def torch_noise(torch: Any, calls: list[Callable[[], Any]], pairs: int = 20, inner: int = 4) -> float:
    """How far two measurements of torch's own call differ: |1 - ratio|, 95 of 100 are below it."""
    apart: list[float] = []
    for call in calls:
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        apart += [abs(1.0 - torch_us(torch, call, inner) / torch_us(torch, call, inner)) for _ in range(pairs)]
    return sorted(apart)[int(0.95 * len(apart))]


def submit_times_us(
    calls: list[tuple[str, dict[str, Any], Callable[[], Any]]],
    floor_us: Callable[[int], float],
    count: int = 256,
    rounds: int = 50,
) -> list[float]:
    """(statement, names, synchronize): `count` runs on an idle stream, host time without the sync, median of `rounds`.

    The last value is the median of `floor_us(count)`, taken in the same turns: a host that slows down slows all.
    """
    timers = [timeit.Timer(statement, globals=names) for statement, names, _ in calls]
    samples: list[list[float]] = [[] for _ in range(len(calls) + 1)]
    for turn in range(rounds + 1):
        samples[-1].append(floor_us(count))
        for index, (_, _, synchronize) in enumerate(calls):
            synchronize()
            elapsed = timers[index].timeit(count)
            synchronize()
            if turn > 0:
                samples[index].append(elapsed * 1e6 / count)
    return [statistics.median(s) for s in samples]
