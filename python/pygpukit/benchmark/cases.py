"""The cases of the suite: what is computed, on which inputs, how right it must be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pygpukit as gp
from pygpukit.benchmark.ceilings import num_copies, read_name, read_timers
from pygpukit.benchmark.inputs import Pair, Work, float8_work, float_work, missing_operation, normal, weight_only_work
from pygpukit.benchmark.peers import Peer
from pygpukit.benchmark.reference import sampled_error
from pygpukit.benchmark.report import SAME_WORK, BenchmarkResult, PeerResult
from pygpukit.benchmark.timing import DEFAULT_EFFORT, Call, Effort, Samples, Timer, own_timer, take_turns
from pygpukit.errors import ArgumentError, Error, UnsupportedError

__all__ = [
    "BOUNDS",
    "GEMM_DTYPES",
    "GEMV_DTYPES",
    "GEMV_SHAPES",
    "Benchmark",
    "FP8GEMMBenchmark",
    "GEMMBenchmark",
    "GEMVBenchmark",
    "W8A8GEMVBenchmark",
]

# Largest error of a correct result, by the norm of a row, against float64 of the operands as they are stored.
BOUNDS = {"fp32": 1e-5, "tf32": 1e-3, "fp16": 1e-3, "bf16": 4e-3, "fp8": 4e-3, "w8a8": 4e-3, "nvf4": 4e-3}

GEMM_DTYPES = ("fp32", "tf32", "fp16", "bf16")
GEMV_DTYPES = ("bf16", "fp8", "nvf4")
GEMV_SHAPES = {  # label: (K, N)
    "7B_hidden": (4096, 4096),
    "7B_mlp_up": (4096, 14336),
    "7B_mlp_down": (14336, 4096),
    "72B_hidden": (8192, 8192),
    "72B_mlp_up": (8192, 29568),
    "72B_mlp_down": (29568, 8192),
}
_STORED = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class Benchmark(ABC):
    """One case of the suite."""

    category: str

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its result."""

    @property
    @abstractmethod
    def params(self) -> dict[str, Any]:
        """Sizes, dtype and layout."""

    @abstractmethod
    def obstacle(self) -> str | None:
        """Why the case cannot run here; None when it can."""

    @abstractmethod
    def run(self, effort: Effort = DEFAULT_EFFORT, peers: Sequence[Peer] = ()) -> BenchmarkResult:
        """Checks the result and measures, peers in turns with ours. UnsupportedError when there is an obstacle."""


class _Product(Benchmark):
    """out [M, N] = a [M, K] @ b [K, N]."""

    _layout: str
    _out_dtype: str
    _peer_work = SAME_WORK

    def __init__(self, m: int, k: int, n: int, dtype: str) -> None:
        for argument, size in (("m", m), ("k", k), ("n", n)):
            if size < 1:
                raise ArgumentError(f"{type(self).__name__}: {argument}: got {size}, wanted 1 or more")
        self.m, self.k, self.n, self.dtype = m, k, n, dtype

    @property
    def params(self) -> dict[str, Any]:
        return {"m": self.m, "k": self.k, "n": self.n, "dtype": self.dtype, "layout": self._layout}

    @abstractmethod
    def _make(self, seed: int, out: gp.GPUArray) -> Work:
        """Random inputs."""

    @abstractmethod
    def _peer_call(self, peer: Peer, work: Work, out: gp.GPUArray) -> Call | None:
        """`_peer_work` by a peer, or None when it has none."""

    def _peer_operands(self, work: Work) -> Pair:
        """What that multiplies."""
        return work.plain

    def _read_arrays(self, works: Sequence[Work]) -> list[gp.GPUArray]:
        """What bounds the case when the memory does; empty when arithmetic does."""
        return []

    def _empty(self) -> gp.GPUArray:
        return gp.empty((self.m, self.n), dtype=self._out_dtype)

    def _works(self, out: gp.GPUArray) -> list[Work]:
        first = self._make(0, out)
        count = num_copies(sum(array.nbytes for array in first.stored))
        return [first, *(self._make(seed, out) for seed in range(1, count))]

    def run(self, effort: Effort = DEFAULT_EFFORT, peers: Sequence[Peer] = ()) -> BenchmarkResult:
        obstacle = self.obstacle()
        if obstacle is not None:
            raise UnsupportedError(f"{self.name}: {obstacle}")
        out = self._empty()
        works = self._works(out)
        error = _checked_error(works[0].operands(), works[0].call, out, gp.synchronize)
        rivals, faults = self._rivals(peers, works)
        reads = self._read_arrays(works)
        ceilings = read_timers(reads) if reads else []
        ours = own_timer([work.call for work in works])
        samples = take_turns([ours, *(rival.timer for rival in rivals), *ceilings], effort)
        moved = sum(array.nbytes for array in works[0].stored) + out.nbytes
        result = self._result(samples[0], ours, error, moved)
        result.peer_faults = faults
        for rival, theirs in zip(rivals, samples[1:], strict=False):
            ratio = theirs.median / result.median_us
            result.peers[rival.name] = PeerResult(theirs.median, ratio, self._peer_work, rival.timer.clock, rival.error)
        if reads:
            fastest = min(s.median for s in samples[1 + len(rivals) :])
            result.share_of_ceiling = moved / result.median_us / (reads[0].nbytes / fastest)
            result.ceiling = f"{read_name()}, over the weights"
        return result

    def _rivals(self, peers: Sequence[Peer], works: Sequence[Work]) -> tuple[list[_Rival], dict[str, str]]:
        """The peers that have this product, and what went wrong with those that failed at it."""
        rivals, faults = [], {}
        for peer in peers:
            try:
                rival = _Rival.make(self, peer, works)
            except Error:
                raise
            except (RuntimeError, TypeError, ValueError) as error:
                faults[peer.name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
                continue
            if rival is not None:
                rivals.append(rival)
        return rivals, faults

    def _result(self, samples: Samples, timer: Timer, error: float, moved: int) -> BenchmarkResult:
        median = samples.median
        return BenchmarkResult(
            name=self.name,
            category=self.category,
            params=self.params,
            median_us=median,
            min_us=min(samples.values),
            max_us=max(samples.values),
            std_us=samples.std,
            tflops=2 * self.m * self.k * self.n / median / 1e6,
            bandwidth_gbps=moved / median / 1e3,
            correct=error <= BOUNDS[self.dtype],
            rel_error=error,
            iterations=len(samples.values),
            p5_us=samples.percentile(5),
            p95_us=samples.percentile(95),
            clock=timer.clock,
        )


def _checked_error(operands: Pair, call: Call, out: gp.GPUArray, synchronize: Call) -> float:
    """The error of what the call writes over a poisoned result."""
    out[...] = float("nan")
    gp.synchronize()
    call()
    synchronize()
    return sampled_error(*operands, out)


@dataclass(frozen=True)
class _Rival:
    """A peer at one case."""

    name: str
    timer: Timer
    error: float

    @staticmethod
    def make(case: _Product, peer: Peer, works: Sequence[Work]) -> _Rival | None:
        out = case._empty()
        gp.synchronize()
        calls = [call for work in works if (call := case._peer_call(peer, work, out)) is not None]
        if not calls:
            return None
        error = _checked_error(case._peer_operands(works[0]), calls[0], out, peer.synchronize)
        return _Rival(peer.name, peer.timer(calls), error)


def _check_dtype(where: str, dtype: str, wanted: Sequence[str]) -> None:
    if dtype not in wanted:
        raise ArgumentError(f"{where}: dtype: got {dtype!r}, wanted one of {', '.join(wanted)}")


class GEMMBenchmark(_Product):
    """A dense product of row-major matrices by `gp.matmul`. fp32 is exact, tf32 is asked for."""

    category = "gemm"
    _layout = "a [M, K], b [K, N]"

    def __init__(self, m: int, k: int, n: int, dtype: str = "bf16") -> None:
        _check_dtype("GEMMBenchmark", dtype, GEMM_DTYPES)
        super().__init__(m, k, n, dtype)
        self._out_dtype = _STORED[dtype]

    @property
    def name(self) -> str:
        return f"gemm_{self.dtype}_{self.m}x{self.k}x{self.n}"

    def obstacle(self) -> str | None:
        if self.dtype == "tf32" and gp.default_device().kind != "cuda":
            return "the CPU has no TF32; it multiplies float32 exactly"
        return None

    def _make(self, seed: int, out: gp.GPUArray) -> Work:
        a = normal((self.m, self.k), self._out_dtype, 2 * seed)
        b = normal((self.k, self.n), self._out_dtype, 2 * seed + 1)
        return float_work(a, b, out, (a, b), use_tf32=True if self.dtype == "tf32" else None)

    def _peer_call(self, peer: Peer, work: Work, out: gp.GPUArray) -> Call | None:
        return peer.product(self.dtype, *work.plain, out)


class FP8GEMMBenchmark(_Product):
    """A product of float8_e4m3 matrices with a scale for each row of both, by `gp.scaled_matmul`."""

    category = "gemm"
    _layout = "a [M, K], b [N, K]"
    _out_dtype = "bfloat16"

    def __init__(self, m: int, k: int, n: int) -> None:
        super().__init__(m, k, n, "fp8")

    @property
    def name(self) -> str:
        return f"gemm_fp8_{self.m}x{self.k}x{self.n}"

    def obstacle(self) -> str | None:
        return missing_operation()

    def _make(self, seed: int, out: gp.GPUArray) -> Work:
        a = normal((self.m, self.k), "bfloat16", 2 * seed)
        return float8_work(a, normal((self.n, self.k), "bfloat16", 2 * seed + 1), out)

    def _peer_call(self, peer: Peer, work: Work, out: gp.GPUArray) -> Call | None:
        a, b, scale_a, scale_b = work.stored
        return peer.fp8_product(a, b, scale_a, scale_b, out)

    def _peer_operands(self, work: Work) -> Pair:
        return work.operands()


class _MatrixVector(_Product):
    """One row times the weights of a layer, which are [N, K]."""

    category = "gemv"
    _layout = "a [1, K], weights [N, K]"
    _out_dtype = "bfloat16"

    def __init__(self, label: str, k: int, n: int, dtype: str) -> None:
        super().__init__(1, k, n, dtype)
        self.label = label
        self._peer_work = SAME_WORK if dtype == "bf16" else "the bf16 product"

    @property
    def name(self) -> str:
        return f"gemv_{self.dtype}_{self.label}"

    @property
    def params(self) -> dict[str, Any]:
        return {**super().params, "label": self.label}

    def obstacle(self) -> str | None:
        return None if self.dtype == "bf16" else missing_operation()

    def _make(self, seed: int, out: gp.GPUArray) -> Work:
        a = normal((1, self.k), "bfloat16", 2 * seed)
        return self._multiply(a, normal((self.n, self.k), "bfloat16", 2 * seed + 1), out)

    @abstractmethod
    def _multiply(self, a: gp.GPUArray, weights: gp.GPUArray, out: gp.GPUArray) -> Work:
        """The work on bfloat16 inputs, in the format of the case."""

    def _peer_call(self, peer: Peer, work: Work, out: gp.GPUArray) -> Call | None:
        return peer.product("bf16", *work.plain, out)

    def _read_arrays(self, works: Sequence[Work]) -> list[gp.GPUArray]:
        return [work.stored[1] for work in works]


class GEMVBenchmark(_MatrixVector):
    """A bf16 row times weights [N, K]: bf16 by `gp.matmul`, fp8 (a scale for each row) and nvf4 by `gp.scaled_matmul`."""

    def __init__(self, label: str, k: int, n: int, dtype: str = "bf16") -> None:
        _check_dtype("GEMVBenchmark", dtype, GEMV_DTYPES)
        super().__init__(label, k, n, dtype)

    def _multiply(self, a: gp.GPUArray, weights: gp.GPUArray, out: gp.GPUArray) -> Work:
        if self.dtype == "bf16":
            return float_work(a, weights.T, out, (a, weights))
        return weight_only_work(a, weights, "fp8_e4m3" if self.dtype == "fp8" else "nvfp4", out)


class W8A8GEMVBenchmark(_MatrixVector):
    """A float8_e4m3 row times float8_e4m3 weights [N, K], a scale for each row of both, by `gp.scaled_matmul`."""

    def __init__(self, label: str, k: int, n: int) -> None:
        super().__init__(label, k, n, "w8a8")

    def _multiply(self, a: gp.GPUArray, weights: gp.GPUArray, out: gp.GPUArray) -> Work:
        return float8_work(a, weights, out)
