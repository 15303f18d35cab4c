"""A run against an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, field

from pygpukit.benchmark.report import BenchmarkReport, BenchmarkResult
from pygpukit.errors import ArgumentError

__all__ = ["ComparisonResult", "Regression", "check_threshold", "compare_reports"]


@dataclass(frozen=True)
class Regression:
    """A case whose speed changed. `delta_percent` is the change of the speed: negative = slower."""

    result: BenchmarkResult
    baseline: BenchmarkResult
    delta_percent: float

    @property
    def turned_wrong(self) -> bool:
        """The result was correct before and is not now, however fast."""
        return self.baseline.correct is True and self.result.correct is False

    def __str__(self) -> str:
        times = f"{self.baseline.median_us:.1f} us -> {self.result.median_us:.1f} us"
        wrong = ", and the result is WRONG now" if self.turned_wrong else ""
        return f"{self.result.name}: {times} ({self.delta_percent:+.1f} %{wrong})"


@dataclass
class ComparisonResult:
    """What changed by more than the threshold, and which cases only one side has."""

    regressions: list[Regression] = field(default_factory=list)
    improvements: list[Regression] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    threshold: float = 0.05
    compared: int = 0
    note: str = ""

    @property
    def has_regression(self) -> bool:
        return bool(self.regressions)

    def summary(self) -> str:
        """A line for each thing found."""
        lines = [f"compared {self.compared} cases, threshold {self.threshold * 100:g} %"]
        lines += [f"note: {self.note}"] if self.note else []
        lines += [f"REGRESSION {change}" for change in self.regressions]
        lines += [f"improvement {change}" for change in self.improvements]
        lines += [f"missing: {name} is in the baseline only" for name in self.missing]
        lines += [f"new: {name} is not in the baseline" for name in self.new]
        lines.append("regression" if self.has_regression else "no regression")
        return "\n".join(lines)


def check_threshold(threshold: float) -> float:
    if not 0 <= threshold < 1:
        raise ArgumentError(f"compare: threshold: got {threshold}, wanted a share from 0 to below 1, such as 0.05")
    return threshold


def compare_reports(current: BenchmarkReport, baseline: BenchmarkReport, threshold: float = 0.05) -> ComparisonResult:
    """Compares medians by name. A speed below 1 - threshold of the baseline's, or a result that turned wrong, is a regression."""
    outcome = ComparisonResult(threshold=check_threshold(threshold))
    if current.gpu.name != baseline.gpu.name:
        outcome.note = f"the baseline was measured on another device: {baseline.gpu.name}, now {current.gpu.name}"
    before = {result.name: result for result in baseline.results}
    for result in current.results:
        earlier = before.pop(result.name, None)
        if earlier is None:
            outcome.new.append(result.name)
            continue
        outcome.compared += 1
        change = Regression(result, earlier, (earlier.median_us / result.median_us - 1) * 100)
        if change.turned_wrong or change.delta_percent < -threshold * 100:
            outcome.regressions.append(change)
        elif change.delta_percent > threshold * 100:
            outcome.improvements.append(change)
    outcome.missing = list(before)
    return outcome
