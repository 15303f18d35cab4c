"""Clocks, and contenders that take turns."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import pygpukit as gp
from pygpukit.errors import ArgumentError

__all__ = [
    "DEFAULT_EFFORT",
    "IN_A_ROW",
    "Call",
    "Effort",
    "Samples",
    "Timer",
    "enough_calls",
    "measure_kernel",
    "own_timer",
    "take_turns",
]

Call = Callable[[], object]

_ROUNDS = 5
IN_A_ROW = "GPU time of calls in a row"  # of what no graph can hold
_GRAPH_CALLS, _GRAPH_US = 16, 3000.0  # what a graph has at least; but it should not take longer than that


def _check_counts(where: str, warmup: int, iterations: int) -> None:
    if warmup < 0:
        raise ArgumentError(f"{where}: warmup: got {warmup}, wanted 0 or more")
    if iterations < 1:
        raise ArgumentError(f"{where}: iterations: got {iterations}, wanted 1 or more")


@dataclass(frozen=True)
class Effort:
    """Passes before the clock starts, samples of each contender, and how long one turn lasts at least."""

    warmup: int = 10
    iterations: int = 50
    turn_us: float = 0.0

    def __post_init__(self) -> None:
        _check_counts("Effort", self.warmup, self.iterations)


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Samples:
    """Microseconds of one call, measured often."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.values))

    @property
    def std(self) -> float:
        return float(np.std(self.values))

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.values, percent))


class Timer(ABC):
    """Runs a list of calls, each on its own copy of the inputs, and says how long one took."""

    clock: str  # what the time is, in words

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = list(calls)

    @abstractmethod
    def pass_us(self, passes: int) -> float:
        """Microseconds of one pass over all calls, as the mean of `passes` in a row."""

    def run_calls(self) -> None:
        for call in self.calls:
            call()


class HostTimer(Timer):
    """For work that is done when `synchronize` returns."""

    clock = "host clock"

    def __init__(self, calls: Sequence[Call], synchronize: Call) -> None:
        super().__init__(calls)
        self._synchronize = synchronize

    def pass_us(self, passes: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(passes):
            self.run_calls()
        self._synchronize()
        return (time.perf_counter_ns() - start) / 1e3 / passes


def enough_calls(calls: Sequence[Call], synchronize: Call) -> list[Call]:
    """The calls, several times over if they are few and short: what lies between two graphs of them is no call's."""
    timer = HostTimer(calls, synchronize)
    timer.pass_us(1)  # compiles and allocates, which a capture must not
    return timer.calls * max(1, min(-(-_GRAPH_CALLS // len(timer.calls)), int(_GRAPH_US / timer.pass_us(1))))


class _GraphTimer(Timer):
    clock = "GPU time of a graph of calls"

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__(enough_calls(calls, gp.synchronize))
        self._graph = gp.CudaGraph()
        with self._graph.capture():
            self.run_calls()

    def pass_us(self, passes: int) -> float:
        start, stop = gp.CudaEvent(), gp.CudaEvent()
        self._graph.replay()  # keeps the device busy while the rest is submitted
        start.record()
        for _ in range(passes):
            self._graph.replay()
        stop.record()
        stop.synchronize()
        return float(gp.event_elapsed_us(start, stop)) / passes


class _EventTimer(Timer):
    clock = IN_A_ROW

    def pass_us(self, passes: int) -> float:
        start, stop = gp.CudaEvent(), gp.CudaEvent()
        start.record()
        for _ in range(passes):
            self.run_calls()
        stop.record()
        stop.synchronize()
        return float(gp.event_elapsed_us(start, stop)) / passes


def own_timer(calls: Sequence[Call], in_graph: bool = True) -> Timer:
    """GPU time on a GPU, of a captured graph or of calls in a row; the host clock on the CPU."""
    if gp.default_device().kind != "cuda":
        return HostTimer(calls, gp.synchronize)
    return _GraphTimer(calls) if in_graph else _EventTimer(calls)


def take_turns(timers: Sequence[Timer], effort: Effort) -> list[Samples]:
    """Samples of every contender: all warm up, then A B A B, so that clocks and heat of the chip meet all alike."""
    passes, turns = [], min(_ROUNDS, effort.iterations)
    for timer in timers:
        for _ in range(effort.warmup):
            timer.pass_us(1)
        samples_us = effort.turn_us * turns / effort.iterations
        passes.append(max(1, math.ceil(samples_us / timer.pass_us(1))))
    samples: list[list[float]] = [[] for _ in timers]
    for turn in range(turns):
        count = effort.iterations * (turn + 1) // turns - effort.iterations * turn // turns
        for index, timer in enumerate(timers):
            for _ in range(count):
                samples[index].append(timer.pass_us(passes[index]) / len(timer.calls))
    return [Samples(tuple(values)) for values in samples]


def measure_kernel(
    fn: Call, warmup: int = 10, iterations: int = 50, sync_fn: Call | None = None
) -> tuple[float, float, float, float]:
    """(median, min, max, standard deviation) of a call in microseconds.

    With sync_fn by the host clock, the wait included: for any library. Without it by events of the current stream on a
    GPU and by the host clock on the CPU: for our own calls.
    """
    _check_counts("measure_kernel", warmup, iterations)
    on_gpu = sync_fn is None and gp.default_device().kind == "cuda"
    timer = _EventTimer([fn]) if on_gpu else HostTimer([fn], sync_fn or gp.synchronize)
    for _ in range(warmup):
        timer.pass_us(1)
    samples = Samples(tuple(timer.pass_us(1) for _ in range(iterations)))
    return samples.median, min(samples.values), max(samples.values), samples.std
