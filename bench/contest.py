"""Matrix products against their peers: contenders in turns, GPU time of a graph of calls, random inputs in more copies
than twice the L2 holds, medians.

What fails, a peer above all, costs its own figures alone: it is printed and noted in the result file.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Call = Callable[[], Any]  # gives its result
Calls = Sequence[Call]  # the same work, each on its own copy of the inputs

ROUNDS = 5
POWER_S = 0.3  # a turn, where what is compared draws other power: the clock needs that long to settle
CLOSE_S = 0.06  # a turn, where a limit lies near 1
MANY_S = 0.02  # a turn, where many shapes are measured
READER_S = 0.003  # a turn, where the fastest launch of a ceiling is found
LEAST_S = 0.0  # of every turn; --turn sets it
LLM_ROWS = (16, 64, 256, 2048)
LLM_WEIGHTS = (  # k, n of Qwen2.5-7B and Llama-3-8B
    (3584, 4608), (3584, 3584), (3584, 37888), (18944, 3584),
    (4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096),
)  # fmt: skip
DIVIDE = 1  # of every size; more than 1 where the program itself is tested


def size(value: int) -> int:
    return value if DIVIDE == 1 else max(16, value // DIVIDE // 16 * 16)


def rounds_of_many() -> int:
    """Turns of each contender where there are many: fewer when they are long."""
    return ROUNDS if LEAST_S <= MANY_S else 3


def geomean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values))


def tenth(values: Sequence[float]) -> float:
    """The tenth percentile, never below the least."""
    return statistics.quantiles(values, n=10, method="inclusive")[0]


class Contest:
    """Contenders of one group of figures."""

    def __init__(self, gp: Any, torch: Any, report: Any) -> None:
        from pygpukit.benchmark.peers import find_peers

        self.gp, self.torch, self.report = gp, torch, report
        self.peer: Any = next(peer for peer in find_peers()[0] if peer.name == "torch")
        self.turn_s = 0.0  # of the last race
        self._seed = 0

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Notes what went wrong and goes on."""
        try:
            yield
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            print(f"-- {what}: not measured: {reason}", flush=True)
            self.report.data.setdefault("faults", {})[what] = reason

    # Inputs

    def copies(self, nbytes: int) -> int:
        from pygpukit.benchmark.ceilings import num_copies

        return num_copies(nbytes)

    def normal(self, shape: tuple[int, ...], dtype: str) -> Any:
        self._seed += 1
        return self.gp.random.normal(shape, dtype=dtype, seed=self._seed)

    def codes(self, shape: tuple[int, ...]) -> Any:
        """int8 over its whole range but -128."""
        self._seed += 1
        return self.gp.random.randint(-127, 128, shape, dtype="int8", seed=self._seed)

    def tensor(self, array: Any) -> Any:
        """torch's view of the same memory."""
        if str(array.dtype) != "float8_e4m3":
            return self.torch.from_dlpack(array)
        return self.torch.from_dlpack(self.gp.bitcast(array, "uint8")).view(self.torch.float8_e4m3fn)

    # Contenders

    def ours(self, calls: Calls) -> list[Any]:
        from pygpukit.benchmark.timing import own_timer

        return [own_timer(calls)]

    def theirs(self, calls: Calls) -> list[Any]:
        return [self.peer.timer(calls)]

    def reader(self, nbytes: int) -> list[Any]:
        """A kernel that only reads that many bytes, in as many copies: the fastest launch of it in short turns."""
        from pygpukit.benchmark.ceilings import read_timers
        from pygpukit.benchmark.timing import Effort, take_turns

        words = -(-nbytes // 16) * 4
        self._seed += 1
        data = self.gp.random.randint(0, 1 << 30, (self.copies(nbytes) * words,), dtype="int32", seed=self._seed)
        timers = read_timers([data[i : i + words] for i in range(0, data.size, words)])
        samples = take_turns(timers, Effort(warmup=1, iterations=ROUNDS, turn_us=READER_S * 1e6 / DIVIDE**2))
        return [min(zip(timers, samples, strict=True), key=lambda pair: pair[1].median)[0]]

    def agree(self, ours: Call, theirs: Call, bound: float) -> None:
        """Raises where the results differ by more than `bound`, by their norms: a wrong product has no speed."""
        gp = self.gp
        mine = ours().astype("float32")
        result = theirs()
        gp.synchronize()
        self.peer.synchronize()
        other = gp.from_dlpack(result).astype("float32")
        apart = float(gp.sum(gp.square(gp.sub(mine, other))).item())
        whole = float(gp.sum(gp.square(other)).item())
        if not apart <= bound**2 * whole or not whole > 0:
            raise AssertionError(f"results differ: {apart:.3g} of {whole:.3g} in squares, bound {bound:g}")

    def race(
        self, contenders: dict[str, Callable[[], list[Any]]], turn_s: float, rounds: int = ROUNDS
    ) -> dict[str, float]:
        """Median microseconds of one call of each contender that could be set up: of its fastest timer."""
        from pygpukit.benchmark.timing import Effort, take_turns

        timers: list[tuple[str, Any]] = []
        self.gp.synchronize()
        for name, make in contenders.items():
            with self.guard(name):
                timers += [(name, timer) for timer in make()]
        self.turn_s = max(turn_s, LEAST_S)
        effort = Effort(warmup=1, iterations=rounds, turn_us=self.turn_s * 1e6 / DIVIDE**2)
        samples = take_turns([timer for _, timer in timers], effort)
        found: dict[str, float] = {}
        for (name, _), sample in zip(timers, samples, strict=True):
            found[name] = min(sample.median, found.get(name, math.inf))
        return found

    def duel(
        self, name: str, ours: Calls, theirs: Callable[[], Calls], bound: float, turn_s: float
    ) -> tuple[float, float]:
        """Microseconds of ours and of torch's calls, whose first results must agree."""
        peer_calls = theirs()
        self.gp.synchronize()
        self.agree(ours[0], peer_calls[0], bound)
        us = self.race({name: lambda: self.ours(ours), f"{name} torch": lambda: self.theirs(peer_calls)}, turn_s)
        return us[name], us[f"{name} torch"]

    def add_ratio(self, name: str, us: float, torch_us: float, **details: Any) -> None:
        self.report.add(name, torch_us / us, us=us, torch_us=torch_us, turn_s=self.turn_s, **details)
