"""A report for people: a table for the terminal, one for Markdown."""

from __future__ import annotations

from pygpukit.benchmark.report import BenchmarkReport, BenchmarkResult
from pygpukit.cli.text import bold, columns, fitting, has_width, table

__all__ = ["flops", "markdown", "number", "one_line", "terminal_table", "transfer"]


def _time(us: float | None) -> str:
    if us is None:
        return "-"
    return f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def number(value: float) -> str:
    """Three digits, without an exponent where people write none."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def transfer(gb_s: float) -> str:
    """TB/s, or GB/s where there is less than one."""
    return f"{gb_s / 1e3:.3g} TB/s" if gb_s >= 1e3 else f"{number(gb_s)} GB/s"


def flops(tflops: float) -> str:
    """TFLOP/s, or GFLOP/s where there is less than one."""
    return f"{number(tflops)} TFLOP/s" if tflops >= 1 else f"{number(tflops * 1e3)} GFLOP/s"


def _rate(result: BenchmarkResult) -> str:
    """What bounds the case: arithmetic, or the memory for what reads much for little work."""
    if result.category == "llm":
        return f"{number(result.params['tokens_per_second'])} tokens/s"
    if result.category in ("gemv", "decode", "sampling") and result.bandwidth_gbps is not None:
        return transfer(result.bandwidth_gbps)
    return "-" if result.tflops is None else flops(result.tflops)


def _verdict(result: BenchmarkResult) -> str:
    if result.correct is None:
        return "not checked"
    return "yes" if result.correct else "NO"


def _error(result: BenchmarkResult) -> str:
    return "-" if result.rel_error is None else f"{result.rel_error:.1e}"


def one_line(result: BenchmarkResult) -> str:
    """The case as progress shows it."""
    correct = "correct" if result.correct else "WRONG"
    peers = "".join(f", {peer.ratio:.2f}x {name}" for name, peer in result.peers.items())
    return f"{result.name}: {_time(result.median_us)} us, {_rate(result)}{peers}, {correct}"


def _row(result: BenchmarkResult, peers: list[str]) -> list[str]:
    share = "-" if result.share_of_ceiling is None else f"{result.share_of_ceiling * 100:.0f} %"
    ratios = [f"{result.peers[name].ratio:.2f}x" if name in result.peers else "-" for name in peers]
    times = [_time(result.median_us), f"{_time(result.p5_us)} - {_time(result.p95_us)}"]
    return [result.name, *times, _rate(result), share, *ratios, _error(result), _verdict(result)]


def _ceilings(report: BenchmarkReport) -> list[str]:
    lines = []
    if report.memory_ceiling is not None:
        memory = report.memory_ceiling
        lines.append(
            f"memory ceiling: {transfer(memory.rate)} by {memory.by}; a gemv's is measured over its own weights"
        )
    for dtype, ceiling in report.compute_ceilings.items():
        lines.append(f"{dtype} ceiling: {flops(ceiling.rate)}, the best of this run: {ceiling.by}")
    return lines


def _fitting(rows: list[list[str]]) -> str:
    """The table; where it is too wide, without what one can do without, the least first."""
    for dropped in ("p5 - p95", "error", "of ceiling"):
        text = table(rows)
        if not has_width() or max(map(len, text.splitlines())) <= columns():
            break
        at = rows[0].index(dropped)
        rows = [row[:at] + row[at + 1 :] for row in rows]
    return table(rows)


def terminal_table(report: BenchmarkReport) -> str:
    """Times, rates, shares of the measured ceilings, ratios to peers (above 1: ours is faster), correctness."""
    gpu = report.gpu
    chip = f" (SM {gpu.sm_major}.{gpu.sm_minor}, driver {gpu.driver_version})" if gpu.sm_major else ""
    lines = [bold(f"PyGPUkit {report.version} on {gpu.name}{chip}")]
    peers = list(dict.fromkeys(name for result in report.results for name in result.peers))
    if report.results:
        head = ["case", "us", "p5 - p95", "rate", "of ceiling", *(f"vs {name}" for name in peers), "error", "correct"]
        lines.append(_fitting([head, *(_row(result, peers) for result in report.results)]))
    rest = _ceilings(report)
    clocks = {f"{name}: {peer.work}, {peer.clock}" for r in report.results for name, peer in r.peers.items()}
    rest += [f"time: {clock}" for clock in dict.fromkeys(result.clock for result in report.results)]
    rest += [f"peer {text}" for text in sorted(clocks)]
    rest += [f"note: {note}" for note in report.notes]
    rest += [f"not run: {name} at {r.name}: {why}" for r in report.results for name, why in r.peer_faults.items()]
    rest += [f"not run: {case.name}: {case.reason}" for case in report.not_run]
    return "\n".join([*lines, *(fitting(line) for line in rest)])


def markdown(report: BenchmarkReport) -> str:
    """A table for each category."""
    lines = [f"# Benchmark: {report.gpu.name}, PyGPUkit {report.version}", ""]
    for category in dict.fromkeys(result.category for result in report.results):
        lines += [f"## {category}", "", "| Name | Time (us) | TFLOPS | Correct |", "|---|---|---|---|"]
        for result in report.results:
            if result.category == category:
                rate = "-" if result.tflops is None else number(result.tflops)
                lines.append(f"| {result.name} | {_time(result.median_us)} | {rate} | {_verdict(result)} |")
        lines.append("")
    lines += [f"Not run: {case.name}: {case.reason}" for case in report.not_run]
    return "\n".join(lines).rstrip("\n")
