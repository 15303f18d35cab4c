"""Writes docs/performance.md and docs/images/performance.svg from bench/results/*.json and the limits in bench/.

Of each device the newest file counts. `--check` writes nothing and exits 1 when a file is not what would be written.
Needs no GPU and no package.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import performance_picture
from check_limits import Limit, read_limits
from performance_text import GROUPS, HOW, NOTES, OBSTACLES, SWEEP, SWEEP_TITLE

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
TARGET = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "performance.svg"

LONG_TURN_S = 0.3

UNKNOWN = "not known yet"

# Who a figure is measured beside.
PEERS = ("_vs_torch", "_vs_cupy", "_vs_numpy")

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
        label(limit.name, figure),
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


def held(result: Result, limits: list[Limit]) -> str:
    values = {name: float(figure["value"]) for name, figure in result.figures.items()}
    return f"{sum(limit.holds(values) for limit in limits)} of {len(limits)} limits hold"


def families_of(names: Iterable[str]) -> list[str]:
    """Of figures of the sweep."""
    return list(dict.fromkeys(name.removeprefix(SWEEP).rpartition("_")[0] for name in names))


def sweep_table(limits: list[Limit], values: dict[str, float]) -> list[str]:
    """A family a row: its mean and tenth percentile with their limits."""
    named = {limit.name: limit for limit in limits}

    def cell(name: str) -> str:
        limit = named[name]
        got = f"{values[name]:.2f}" if name in values else "not measured"
        return f"{got if limit.holds(values) else f'**{got}**'} ({limit.sense} {limit.limit:g})"

    rows = [
        f"| `{family}` | {cell(f'{SWEEP}{family}_mean')} | {cell(f'{SWEEP}{family}_tenth')} |"
        for family in families_of(named)
    ]
    return ["| family | geometric mean (limit) | tenth percentile (limit) |", "|---|---|---|", *rows, ""]


def device_section(result: Result, limits: list[Limit]) -> str:
    mine = [limit for limit in limits if limit.where == result.where]
    values = {name: float(figure["value"]) for name, figure in result.figures.items()}
    versions = [f"{key} {result.device[key]}" for key in ("version", "torch") if key in result.device]
    versions = [text.replace("version", "PyGPUkit") for text in versions]
    facts = ", ".join([f"measured {result.date}", *versions])
    parts = [
        f"## {result.title}\n",
        f"{held(result, mine)}; {facts}. File: `bench/results/{result.path.name}`. {ceilings(result)}".strip(),
        "",
    ]
    for title in dict.fromkeys(group_of(limit.name) for limit in mine):
        if title == SWEEP_TITLE:
            swept = [limit for limit in mine if group_of(limit.name) == title]
            parts += [f"### {title}\n", NOTES[title], "", *sweep_table(swept, values)]
            continue
        parts += [
            f"### {title}\n",
            *([NOTES[title], ""] if title in NOTES else []),
            "| figure | limit | measured | ok | our us | torch's time over ours |",
            "|---|---|---|---|---|---|",
            *(row(limit, result.figures.get(limit.name), values) for limit in mine if group_of(limit.name) == title),
            "",
        ]
        if title == "Matrix products":
            parts += matrix_section(result, mine)
    return "\n".join(parts + shared_section(result, mine))


def matrix_section(result: Result, limits: list[Limit]) -> list[str]:
    """Products without a limit, and tables of shapes."""
    limited = {limit.name for limit in limits}
    figures = {name: figure for name, figure in result.figures.items() if name.startswith("mm_")}
    told = {name: figure for name, figure in figures.items() if name not in limited and "shapes" not in figure}
    parts: list[str] = []
    if told:
        rows = [told_row(name, figure) for name, figure in sorted(told.items())]
        head = ["| figure | measured | goal | our us | torch's time over ours |", "|---|---|---|---|---|"]
        parts += ["Told, not limited:\n", *head, *rows, ""]
    parts += llm_table(figures, "mm_llm_nk_shapes", "weights [n, k]")
    parts += llm_table(figures, "mm_llm_shapes", "row-major weights")
    parts += gemv_table(figures)
    return parts


def label(name: str, figure: dict[str, Any] | None) -> str:
    """The name, the length of a turn where it is long, and commit and date where they are not those of the file."""
    figure = figure or {}
    facts = [f"{figure['turn_s']:g} s"] if figure.get("turn_s", 0) >= LONG_TURN_S else []
    facts += [figure[key] for key in ("commit", "date") if key in figure]
    return f"`{name}` ({', '.join(facts)})" if facts else f"`{name}`"


def told_row(name: str, figure: dict[str, Any]) -> str:
    value, goal, ratio = figure["value"], figure.get("goal"), torch_ratio(figure)
    us = figure.get("us", figure.get("ours_us"))
    aim = "" if goal is None else f"{goal:g}: {'reached' if value >= goal else 'not yet'}"
    cells = [label(name, figure), number(value), aim, f"{us:.1f}" if us else "", f"{ratio:.2f}" if ratio else ""]
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def misses_goal(name: str, figure: dict[str, Any], limit: Limit | None, values: dict[str, float]) -> bool:
    """Slower than the peer it is measured beside, by more than the noise, or, with no limit, below its goal."""
    if limit is None and float(figure["value"]) < float(figure.get("goal", 0)):
        return True
    if not any(peer in name for peer in PEERS):
        return False
    sense = limit.sense if limit else "<=" if "submit" in name else ">="
    noise = limit.noise if limit else ""
    return not Limit(name, "", sense, 1.0, "", 0, noise).holds(values)


def exceptions(result: Result, limits: list[Limit]) -> list[str]:
    """What is outside its limit, and what is within it but slower than a peer or below a goal, each with the reason."""
    values = {name: float(figure["value"]) for name, figure in result.figures.items()}
    failed = [limit for limit in limits if not limit.holds(values)]
    parts = ["Outside the limit:\n" if failed else "Outside the limit: none."]
    missing = [limit.name for limit in failed if limit.name not in values]
    if missing:
        groups = Counter(group_of(name) for name in missing)
        parts.append(f"- Not measured yet: {', '.join(f'{title} ({count})' for title, count in groups.items())}.")
    for limit in (limit for limit in failed if limit.name in values):
        got = f"{number(values[limit.name])}, limit {limit.sense} {limit.limit:g}"
        parts.append(f"- `{limit.name}` {got}: {obstacle(limit.name)}.")
    limited = {limit.name: limit for limit in limits}
    outside = {limit.name for limit in failed}
    behind: dict[str, list[str]] = {}
    for name, figure in sorted(result.figures.items()):
        if name not in outside and misses_goal(name, figure, limited.get(name), values):
            behind.setdefault(obstacle(name), []).append(f"`{name}` {number(values[name])}")
    if behind:
        lines = [f"- {', '.join(names)}: {reason}." for reason, names in behind.items()]
        parts += [
            "\nWithin the limit, or with none, but slower than a peer or below a goal, and what stands in the way:\n",
            *lines,
        ]
    return [*parts, ""]


def areas(result: Result, limits: list[Limit]) -> list[str]:
    """torch's time over ours by group of figures with a limit."""
    found: dict[str, list[float]] = {}
    for name in (limit.name for limit in limits if limit.name in result.figures):
        if ratio := torch_ratio(result.figures[name]):
            found.setdefault(group_of(name).partition(":")[0], []).append(ratio)
    rows = [
        f"| {title} | {len(ratios)} | {min(ratios):.2f} | {median(ratios):.2f} |" for title, ratios in found.items()
    ]
    return ["| torch's time over ours | figures | least | median |", "|---|---|---|---|", *rows, ""] if rows else []


def summary(results: list[Result], limits: list[Limit]) -> str:
    """What a reader wants first: how many limits hold, and the exceptions."""
    parts = ["## In short\n"]
    for result in results:
        mine = [limit for limit in limits if limit.where == result.where]
        parts += [f"**{result.title}**: {held(result, mine)}.\n", *areas(result, mine), *exceptions(result, mine)]
    return "\n".join(parts)


def obstacle(name: str) -> str:
    found = (text for begin, end, text in OBSTACLES if name.startswith(begin) and name.endswith(end))
    return next(found, UNKNOWN)


def llm_table(figures: dict[str, dict[str, Any]], name: str, weights: str) -> list[str]:
    """torch's time over ours: a row for each layer, a column for each number of tokens."""
    shapes = figures.get(name, {}).get("shapes", {})
    cells = {tuple(int(x) for x in shape.split("x")): figure["vs_torch"] for shape, figure in shapes.items()}
    if not cells:
        return []
    tokens = sorted({m for m, _, _ in cells})
    layers = dict.fromkeys((k, n) for _, k, n in cells)
    rows = [
        f"| {k} x {n} | " + " | ".join(f"{cells[m, k, n]:.2f}" if (m, k, n) in cells else "" for m in tokens) + " |"
        for k, n in layers
    ]
    head = f"| k x n | {' | '.join(f'{m} tokens' for m in tokens)} |"
    return [f"bfloat16, {weights}: torch's time over ours.\n", head, "|---" * (len(tokens) + 1) + "|", *rows, ""]


def gemv_table(figures: dict[str, dict[str, Any]]) -> list[str]:
    """torch's bfloat16 time over ours, and the share of the read ceiling: a row for each shape, a column for each format."""
    wanted = ("bf16", "w8a16", "w8a8", "int4", "nvfp4")
    formats = {name: figures.get(f"mm_gemv_{name}_shapes", {}).get("shapes", {}) for name in wanted}
    formats = {name: shapes for name, shapes in formats.items() if shapes}
    if not formats:
        return []

    def cell(figure: dict[str, float] | None) -> str:
        return f"{figure['us']:.1f} us, {figure['vs_torch']:.2f}, {figure['vs_read']:.2f}" if figure else ""

    shapes = dict.fromkeys(shape for found in formats.values() for shape in found)
    rows = [
        f"| {shape.replace('x', ' x ')} | " + " | ".join(cell(found.get(shape)) for found in formats.values()) + " |"
        for shape in shapes
    ]
    text = "One row by weights [n, k]: our time, torch's bfloat16 time over it, share of the speed of only reading.\n"
    return [text, f"| k x n | {' | '.join(formats)} |", "|---" * (len(formats) + 1) + "|", *rows, ""]


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
    if any(charted(result) for result in results):
        picture = "\n![torch's time over ours, of operations and matrix products](images/performance.svg)\n"
    sections = "\n".join(device_section(result, limits) for result in results)
    return f"{head}\n{summary(results, limits)}\n## How\n\n{HOW}\n{picture}\n{sections}".rstrip("\n") + "\n"


def charted(result: Result) -> bool:
    return bool(performance_picture.operations(result.figures, torch_ratio))


def svg(results: list[Result]) -> str:
    gpu = next((result for result in results if charted(result)), None)
    if gpu is None:
        return performance_picture.svg("", {}, torch_ratio)
    return performance_picture.svg(gpu.title, gpu.figures, torch_ratio)


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
