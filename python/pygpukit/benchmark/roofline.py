"""The roofline picture: what each case reached, under what the memory and the arithmetic units allow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from pygpukit.benchmark.report import SAME_WORK, BenchmarkReport, BenchmarkResult
from pygpukit.benchmark.text import flops, number, transfer

__all__ = ["roofline"]

_WIDTH, _HEIGHT = 760, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 170, 40, 50
_COLOURS = ("#3b6fb6", "#c0504d", "#4f9a55", "#8064a2", "#d08a2e", "#4aa3b5", "#7f7f7f")


@dataclass(frozen=True)
class _Point:
    dtype: str
    intensity: float  # FLOP per byte
    rate: float  # TFLOP/s
    text: str
    is_peer: bool


def _points(results: list[BenchmarkResult]) -> Iterator[_Point]:
    for result in results:
        if not result.tflops or not result.bandwidth_gbps:
            continue
        intensity = result.tflops * 1e3 / result.bandwidth_gbps
        dtype = str(result.params.get("dtype", result.category))
        yield _Point(dtype, intensity, result.tflops, f"{result.name}: {flops(result.tflops)}", False)
        for name, peer in result.peers.items():
            if peer.work != SAME_WORK:
                continue
            rate = result.tflops / peer.ratio
            yield _Point(dtype, intensity, rate, f"{name}, {result.name}: {flops(rate)}", True)


class _Axes:
    """Logarithmic in both directions, whole decades."""

    def __init__(self, intensities: list[float], rates: list[float]) -> None:
        self.x_decades = _decades(intensities)
        self.y_decades = _decades(rates)

    def x(self, intensity: float) -> float:
        return _LEFT + _share(intensity, self.x_decades) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        return _HEIGHT - _BOTTOM - _share(rate, self.y_decades) * (_HEIGHT - _TOP - _BOTTOM)


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _share(value: float, decades: tuple[int, int]) -> float:
    low, high = decades
    return (math.log10(value) - low) / (high - low)


def _text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text, quote=False)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>'


def _grid(axes: _Axes) -> Iterator[str]:
    look = 'stroke="#dddddd"'
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for power in range(axes.x_decades[0], axes.x_decades[1] + 1):
        x = axes.x(10.0**power)
        yield _line(x, _TOP, x, bottom, look)
        yield _text(x, bottom + 16, f"{10.0**power:g}", "middle")
    for power in range(axes.y_decades[0], axes.y_decades[1] + 1):
        y = axes.y(10.0**power)
        yield _line(_LEFT, y, right, y, look)
        yield _text(_LEFT - 8, y + 4, f"{10.0**power:g}", "end")
    yield _text((_LEFT + right) / 2, _HEIGHT - 12, "FLOP per byte", "middle")
    middle = (_TOP + bottom) / 2
    yield _text(18, middle, "TFLOP/s", "middle", f' transform="rotate(-90 18 {middle:.1f})"')


def _roofs(report: BenchmarkReport, axes: _Axes, colours: dict[str, str]) -> Iterator[str]:
    """The memory's slope up to the highest rate, and a level for each dtype from the slope on."""
    if report.memory_ceiling is None:
        return
    slope = report.memory_ceiling.rate / 1e3  # TFLOP/s at one FLOP per byte
    right = 10.0 ** axes.x_decades[1]
    low = max(10.0 ** axes.x_decades[0], 10.0 ** axes.y_decades[0] / slope)
    high = min(right, 10.0 ** axes.y_decades[1] / slope)
    if low < high:
        yield _line(axes.x(low), axes.y(low * slope), axes.x(high), axes.y(high * slope), 'stroke="#333333"')
    for dtype, ceiling in report.compute_ceilings.items():
        start = min(max(ceiling.rate / slope, 10.0 ** axes.x_decades[0]), right)
        y = axes.y(ceiling.rate)
        yield _line(axes.x(start), y, axes.x(right), y, f'stroke="{colours[dtype]}" stroke-dasharray="5 3"')


def _legend(report: BenchmarkReport, colours: dict[str, str], with_peers: bool) -> Iterator[str]:
    x = _WIDTH - _RIGHT + 14
    for row, (dtype, colour) in enumerate(colours.items()):
        y = _TOP + 14 + 18 * row
        ceiling = report.compute_ceilings.get(dtype)
        best = f", best {number(ceiling.rate)}" if ceiling else ""
        yield f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{colour}"/>'
        yield _text(x + 10, y, dtype + best)
    notes = ["open circles: peers"] if with_peers else []
    if report.memory_ceiling is not None:
        notes.append(f"slope: memory, {transfer(report.memory_ceiling.rate)}")
    for row, note in enumerate(notes, len(colours)):
        yield _text(x - 4, _TOP + 14 + 18 * row, note)


def roofline(report: BenchmarkReport) -> str:
    """The picture as SVG. Dashed levels are the best rates of the run, the slope is the measured read rate."""
    points = list(_points(report.results))
    title = f"Roofline: {report.gpu.name}, PyGPUkit {report.version}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 22, title, more=' font-size="14"'),
    ]
    if not points:
        return "\n".join([*lines, _text(_LEFT, 60, "no case has both a rate and bytes"), "</svg>", ""])
    names = dict.fromkeys([*report.compute_ceilings, *(point.dtype for point in points)])
    colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(names)}
    ceilings = [ceiling.rate for ceiling in report.compute_ceilings.values()]
    axes = _Axes([point.intensity for point in points], [*(point.rate for point in points), *ceilings])
    lines += [*_grid(axes), *_roofs(report, axes, colours)]
    for point in points:
        colour = colours[point.dtype]
        look = f'r="6" fill="none" stroke="{colour}"' if point.is_peer else f'r="4" fill="{colour}"'
        lines.append(
            f'<circle cx="{axes.x(point.intensity):.1f}" cy="{axes.y(point.rate):.1f}" {look}>'
            f"<title>{escape(point.text, quote=False)}</title></circle>"
        )
    lines += _legend(report, colours, any(point.is_peer for point in points))
    return "\n".join([*lines, "</svg>", ""])
