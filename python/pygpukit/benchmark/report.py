"""What a run found, as Python objects and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pygpukit as gp
from pygpukit.errors import ArgumentError

__all__ = [
    "SAME_WORK",
    "BenchmarkReport",
    "BenchmarkResult",
    "Ceiling",
    "GPUInfo",
    "NotRun",
    "PeerResult",
    "get_gpu_info",
    "now",
]

SAME_WORK = "the same product"


def now() -> str:
    """The time in UTC, as ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class GPUInfo:
    """The device of a run. On the CPU the compute capability is 0.0 and the versions are empty."""

    name: str
    sm_major: int
    sm_minor: int
    memory_gb: float
    driver_version: str
    cuda_version: str


def _driver_version() -> str:
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def get_gpu_info() -> GPUInfo:
    """The default device."""
    device = gp.default_device()
    properties = device.properties
    on_gpu = device.kind == "cuda"
    cuda = gp.get_driver_version()
    return GPUInfo(
        name=properties.name,
        sm_major=properties.compute_capability_major,
        sm_minor=properties.compute_capability_minor,
        memory_gb=round(properties.total_memory / 1e9, 2),
        driver_version=_driver_version() if on_gpu else "",
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if on_gpu else "",
    )


@dataclass(frozen=True)
class PeerResult:
    """Another library at the same work, measured in turns with ours. A ratio above 1 says that ours is faster."""

    median_us: float
    ratio: float
    work: str
    clock: str
    rel_error: float | None = None


@dataclass
class BenchmarkResult:
    """One measured case. Times are microseconds of one call; the percentiles are those of the samples."""

    name: str
    category: str
    params: dict[str, Any]
    median_us: float
    min_us: float
    max_us: float
    std_us: float
    tflops: float | None = None
    bandwidth_gbps: float | None = None
    correct: bool | None = None
    rel_error: float | None = None
    iterations: int = 0
    timestamp: str = field(default_factory=now)
    p5_us: float | None = None
    p95_us: float | None = None
    clock: str = ""
    share_of_ceiling: float | None = None
    ceiling: str = ""
    peers: dict[str, PeerResult] = field(default_factory=dict)
    peer_faults: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; an error that is no number becomes None, and `correct` says what it means."""
        return {name: _without_nan(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BenchmarkResult:
        """Keys this version does not know are left out."""
        known = _pick(cls, data, "BenchmarkResult.from_dict")
        known["peers"] = {
            name: PeerResult(**_pick(PeerResult, peer, "BenchmarkResult.from_dict: peers"))
            for name, peer in known.get("peers", {}).items()
        }
        return cls(**known)


@dataclass(frozen=True)
class Ceiling:
    """The most that was reached in the run: GB/s of the memory, TFLOP/s of a dtype. `by` says how or by whom."""

    rate: float
    by: str


@dataclass(frozen=True)
class NotRun:
    """A case without a result, and why."""

    name: str
    reason: str


@dataclass
class BenchmarkReport:
    """Everything of one run."""

    gpu: GPUInfo
    results: list[BenchmarkResult] = field(default_factory=list)
    timestamp: str = field(default_factory=now)
    version: str = gp.__version__
    not_run: list[NotRun] = field(default_factory=list)
    memory_ceiling: Ceiling | None = None
    compute_ceilings: dict[str, Ceiling] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, result: BenchmarkResult) -> None:
        self.results.append(result)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        head = {"version": self.version, "timestamp": self.timestamp, "gpu": asdict(self.gpu)}
        ceilings = {name: asdict(ceiling) for name, ceiling in self.compute_ceilings.items()}
        return {
            **head,
            "results": [result.to_dict() for result in self.results],
            "not_run": [asdict(case) for case in self.not_run],
            "memory_ceiling": asdict(self.memory_ceiling) if self.memory_ceiling else None,
            "compute_ceilings": ceilings,
            "notes": self.notes,
        }

    def save(self, path: str | Path) -> None:
        """Writes JSON."""
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | Path) -> BenchmarkReport:
        """Reads what `save` wrote, of this version or an older one. Raises ArgumentError for another file."""
        text = Path(path).read_text(encoding="utf-8")
        try:
            return cls._from_dict(json.loads(text))
        except (ArgumentError, AttributeError, RecursionError, TypeError, ValueError) as error:
            raise ArgumentError(f"BenchmarkReport.load: {path}: not a report of the benchmark suite: {error}") from None

    @classmethod
    def _from_dict(cls, data: dict[str, Any]) -> BenchmarkReport:
        known = _pick(cls, data, "report")
        known["gpu"] = GPUInfo(**_pick(GPUInfo, known.get("gpu"), "gpu"))
        known["results"] = [BenchmarkResult.from_dict(result) for result in known.get("results", [])]
        known["not_run"] = [NotRun(**case) for case in known.get("not_run", [])]
        memory = known.get("memory_ceiling")
        known["memory_ceiling"] = Ceiling(**memory) if memory else None
        ceilings = known.get("compute_ceilings", {})
        known["compute_ceilings"] = {name: Ceiling(**ceiling) for name, ceiling in ceilings.items()}
        return cls(**known)


def _pick(kind: Any, data: Any, where: str) -> dict[str, Any]:
    """The fields of a dataclass that `data` has."""
    if not isinstance(data, dict):
        raise ArgumentError(f"{where}: got {type(data).__name__}, wanted an object")
    return {f.name: data[f.name] for f in fields(kind) if f.name in data}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
