"""Writes docs/performance.md and docs/images/performance.svg from bench/results/*.json and bench/limits.json.

Of each device the newest file counts. `--check` writes nothing and exits 1 when a file is not what would be written.
Needs no GPU and no package.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from check_limits import Limit, read_limits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
TARGET = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "performance.svg"

# Title, beginning and end of the names in it; the first that fits takes a limit.
GROUPS = [
    ("Memory", "pool_", ""),
    ("Memory", "empty_", ""),
    ("Memory", "decode_", ""),
    ("Memory", "evict", ""),
    ("Memory", "restore_", ""),
    ("Isolation", "isolation_", ""),
    ("Isolation", "memory_hog", ""),
    ("Isolation", "context_bits", ""),
    ("Shares and copies", "share_", ""),
    ("Shares and copies", "bandwidth_", ""),
    ("Shares and copies", "overlap_", ""),
    ("Scheduler", "admissions_", ""),
    ("Scheduler", "tasks_", ""),
    ("Scheduler", "gate_", ""),
    ("Elementwise: share of the copy ceiling", "ew_", "_vs_copy"),
    ("Elementwise: torch's time over ours", "ew_", "_vs_torch"),
    ("Transposed inputs: share of the copy ceiling", "transpose_", "_vs_copy"),
    ("Sums: share of the read ceiling", "sum_", "_vs_read"),
    ("softmax and norms: torch's time over ours", "", "norm_bf16_vs_torch"),
    ("softmax and norms: torch's time over ours", "", "norm_f32_vs_torch"),
    ("softmax and norms: torch's time over ours", "softmax_", "_vs_torch"),
    ("Submitting work: our host time over theirs", "", "_vs_launch"),
    ("Submitting work: our host time over theirs", "", "_vs_torch"),
    ("Submitting work: our host time over theirs", "", "_vs_cupy"),
    ("Start", "", "_s"),
    ("Start", "", "_ms"),
    ("Start", "import_", ""),
    ("Determinism", "", "hashes"),
    ("Determinism", "graph_", ""),
    ("CPU backend: NumPy's time over ours", "cpu_", "_vs_numpy"),
    ("Build and tests", "make_", ""),
    ("Build and tests", "wheel_", ""),
]

HOW = """Times of kernels are medians over repeats between two events, contenders in turns in the same run, with a call queued
before the first event; sizes are 16384 x 8192. "No slower than torch" is checked to within the noise of the run: how far two
measurements of torch's own call differ. The copy ceiling is the faster of the driver's and torch's device-to-device copy of
1 GiB, the read ceiling the fastest of four launches of a kernel that only reads as many bytes. Submit times are 256 calls on an
idle stream, without the wait, median of 50 rounds. `bench/measure.py` is the program; `make gpu-test` runs it and checks every
limit."""

EMPTY = (
    "Nothing was measured yet: there is no file in `bench/results`. `make gpu-test` on a machine with a GPU writes one."
)


@dataclass(frozen=True)
class Result:
    path: Path
    where: str
    device: dict[str, Any]
    date: str
    figures: dict[str, dict[str, Any]]

    @property
    def title(self) -> str:
        if "name" in self.device:
            return str(self.device["name"])
        facts = [f"{key} {value}" for key, value in sorted(self.device.items())]
        return ", ".join([self.where, *facts])


def read_results(folder: Path) -> list[Result]:
    """The newest file of each device, GPUs first."""
    newest: dict[tuple[str, str], Result] = {}
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text())
        where = data.get("where", "gpu")
        result = Result(path, where, data.get("device", {}), data.get("date") or path.name[:10], data["figures"])
        newest[where, result.title] = result
    return [newest[key] for key in sorted(newest)]


def group_of(name: str) -> str:
    for title, begin, end in GROUPS:
        if name.startswith(begin) and name.endswith(end):
            return title
    return "Other"


def number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.3f}"


def torch_ratio(figure: dict[str, Any]) -> float | None:
    """torch's time over ours: above 1 we are faster."""
    ours = figure.get("us", figure.get("ours_us"))
    theirs = figure.get("torch_us")
    return theirs / ours if ours and theirs else None


def row(limit: Limit, figure: dict[str, Any] | None, values: dict[str, float]) -> str:
    unit = "" if limit.unit in ("ratio", "count") else f" {limit.unit}"
    wanted = f"{limit.sense} {limit.limit:g}{unit}"
    if figure is None:
        return f"| `{limit.name}` | {wanted} | not measured | **no** | | |"
    value = float(figure["value"])
    time = figure.get("us", figure.get("ours_us"))
    ratio = torch_ratio(figure)
    cells = [
        f"`{limit.name}`",
        wanted,
        number(value) + unit,
        "yes" if limit.holds(values) else "**no**",
        f"{time:.1f}" if time else "",
        f"{ratio:.2f}" if ratio else "",
    ]
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def ceilings(result: Result) -> str:
    named = {"copy_ceiling_tb_s": "copies", "read_ceiling_tb_s": "reads"}
    found = [
        f"{what} {result.figures[name]['value']:.2f} TB/s" for name, what in named.items() if name in result.figures
    ]
    text = f"Ceilings in this run: {', '.join(found)}." if found else ""
    if "torch_self_noise" in result.figures:
        text += f" Noise: {100 * result.figures['torch_self_noise']['value']:.2f} %."
    return text


def device_section(result: Result, limits: list[Limit]) -> str:
    mine = [limit for limit in limits if limit.where == result.where]
    values = {name: float(figure["value"]) for name, figure in result.figures.items()}
    held = sum(limit.holds(values) for limit in mine)
    versions = [f"{key} {result.device[key]}" for key in ("version", "torch") if key in result.device]
    versions = [text.replace("version", "PyGPUkit") for text in versions]
    facts = ", ".join([f"measured {result.date}", *versions])
    parts = [
        f"## {result.title}\n",
        f"{held} of {len(mine)} limits hold; {facts}. File: `bench/results/{result.path.name}`. {ceilings(result)}".strip(),
        "",
    ]
    for title in dict.fromkeys(group_of(limit.name) for limit in mine):
        parts += [
            f"### {title}\n",
            "| figure | limit | measured | ok | our us | torch's time over ours |",
            "|---|---|---|---|---|---|",
            *(row(limit, result.figures.get(limit.name), values) for limit in mine if group_of(limit.name) == title),
            "",
        ]
    return "\n".join(parts + shared_section(result, mine))


def shared_section(result: Result, limits: list[Limit]) -> list[str]:
    """A tenant beside a neighbour where no wall stands, over the tenant alone: figures without a limit."""
    limited = {limit.name for limit in limits}
    told = {name: figure for name, figure in sorted(result.figures.items()) if "p99" in figure and name not in limited}
    if not told:
        return []
    rows = [f"| `{name}` | {figure['value']:.2f} | {figure['p99']:.2f} |" for name, figure in told.items()]
    return ["### What neighbours share: told, not limited\n", "| figure | p50 | p99 |", "|---|---|---|", *rows, ""]


def generate(results: list[Result], limits: list[Limit]) -> str:
    head = "# Performance\n\nGenerated by `python tools/make_performance.py` from `bench/results` and `bench/limits.json`.\n"
    if not results:
        return f"{head}\n{EMPTY}\n"
    picture = ""
    if any(bars(result) for result in results):
        picture = "\n![torch's time over ours, per operation](images/performance.svg)\n"
    sections = "\n".join(device_section(result, limits) for result in results)
    return f"{head}\n{HOW}\n{picture}\n{sections}".rstrip("\n") + "\n"


# The picture: torch's time over ours for the operations that are bound by memory.

CHARTED = ("add", "mul", "relu", "cast", "where", "exp", "tanh", "gelu", "silu")


def bars(result: Result) -> list[tuple[str, float]]:
    found = []
    for name, figure in sorted(result.figures.items()):
        ratio = torch_ratio(figure)
        operation = name.removeprefix("ew_").rpartition("_vs_")[0]
        charted = operation.rpartition("_")[0] in CHARTED if name.startswith("ew_") else "submit" not in name
        if ratio and operation and charted:
            found.append((operation, ratio))
    return found


def svg(results: list[Result]) -> str:
    gpu = next((result for result in results if bars(result)), None)
    rows = bars(gpu) if gpu else []
    left, width, step, top = 150, 420, 18, 46
    height = top + step * max(len(rows), 1) + 24
    longest = max([ratio for _, ratio in rows] + [1.25])
    scale = width / longest
    title = f"torch's time over ours, {gpu.title}: longer is faster" if gpu else "Nothing was measured yet"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 60} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{left + width + 60}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="24" font-size="14">{escape(title, quote=False)}</text>',
    ]
    for index, (name, ratio) in enumerate(rows):
        y = top + step * index
        colour = "#3b6fb6" if ratio >= 1 else "#c0504d"
        lines += [
            f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{left}" y="{y + 2}" width="{ratio * scale:.1f}" height="{step - 5}" fill="{colour}"/>',
            f'<text x="{left + ratio * scale + 6:.1f}" y="{y + 12}">{ratio:.2f}</text>',
        ]
    if rows:
        x, bottom = left + scale, top + step * len(rows)
        lines += [
            f'<line x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{bottom}" stroke="#333333" stroke-dasharray="3 3"/>',
            f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">1</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    results = read_results(RESULTS)
    wanted = {TARGET: generate(results, read_limits()), PICTURE: svg(results)}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        name = path.relative_to(ROOT).as_posix()
        if arguments.check:
            print(f"{name}: differs; run tools/make_performance.py")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
    if not stale:
        print("docs/performance.md: ok")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
