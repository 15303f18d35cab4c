"""The picture of docs/performance.md: torch's time over ours, bars from 1 to the right where we are faster."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any

CHARTED = ("add", "mul", "relu", "cast", "where", "exp", "tanh", "gelu", "silu")
FASTER, EVEN, SLOWER = "#3b6fb6", "#8a8a8a", "#c0504d"
LEFT, WIDTH, STEP, TOP = 215, 400, 18, 76

Figures = dict[str, dict[str, Any]]
Ratio = Callable[[dict[str, Any]], float | None]


def operations(figures: Figures, ratio_of: Ratio) -> list[tuple[str, float]]:
    """Those that are bound by memory."""
    found = []
    for name, figure in sorted(figures.items()):
        ratio = ratio_of(figure)
        operation = name.removeprefix("ew_").rpartition("_vs_")[0]
        charted = operation.rpartition("_")[0] in CHARTED if name.startswith("ew_") else "submit" not in name
        charted &= not name.startswith("mm_")
        if ratio and operation and charted:
            found.append((operation, ratio))
    return found


def products(figures: Figures, ratio_of: Ratio) -> list[tuple[str, float]]:
    """Each beside torch's product of the same dtypes. `nk`: weights [n, k]; `fast`: torch's fast accumulation."""
    found = []
    for name, figure in sorted(figures.items()):
        ratio = ratio_of(figure)
        operation, _, peer = name.removeprefix("mm_").partition("_vs_torch")
        if ratio and name.startswith("mm_") and "_vs_torch" in name and "submit" not in name:
            found.append((operation + {"": "", "_fast": " (fast)"}.get(peer, f" ({peer.strip('_')})"), ratio))
    return found


def colour(ratio: float, noise: float) -> str:
    if abs(ratio - 1) <= noise:
        return EVEN
    return FASTER if ratio > 1 else SLOWER


def svg(device: str, figures: Figures, ratio_of: Ratio) -> str:
    """`device` empty: nothing was measured. A difference within the noise of the run is neither colour."""
    noise = max(float(figures.get("torch_self_noise", {}).get("value", 0.0)), 0.005)
    groups = [("Operations", operations(figures, ratio_of)), ("Matrix products", products(figures, ratio_of))]
    groups = [(title, rows) for title, rows in groups if rows]
    ratios = [ratio for _, rows in groups for _, ratio in rows]
    low, high = math.log2(min([*ratios, 0.8])), math.log2(max([*ratios, 1.25]))

    def at(ratio: float) -> float:
        return LEFT + WIDTH * (math.log2(ratio) - low) / (high - low)

    height = TOP + sum(STEP * (len(rows) + 2) for _, rows in groups) + 10
    whole = LEFT + WIDTH + 60
    title = f"torch's time over ours, {device}: to the right we are faster" if groups else "Nothing was measured yet"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{whole}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="24" font-size="14">{escape(title, quote=False)}</text>',
    ]
    if groups:
        lines += _legend(noise)
    top = TOP
    for name, rows in groups:
        lines += _group(name, rows, top, at, noise)
        top += STEP * (len(rows) + 2)
    return "\n".join([*lines, "</svg>", ""])


def _legend(noise: float) -> list[str]:
    words = ((FASTER, "faster"), (EVEN, f"equal: within {100 * noise:.1f} %, the noise"), (SLOWER, "slower"))
    lines, x = [], 10
    for paint, text in words:
        lines += [
            f'<rect x="{x}" y="38" width="12" height="12" fill="{paint}"/>',
            f'<text x="{x + 18}" y="48">{escape(text)}</text>',
        ]
        x += 48 + 7 * len(text)
    return lines


def _group(title: str, rows: list[tuple[str, float]], top: int, at: Callable[[float], float], noise: float) -> list[str]:
    bottom, one = top + STEP * (len(rows) + 1), at(1.0)
    lines = [
        f'<text x="10" y="{top + 10}" font-weight="bold">{escape(title)}</text>',
        f'<text x="{one:.1f}" y="{top + 10}" text-anchor="middle">1</text>',
        f'<line x1="{one:.1f}" y1="{top + STEP - 4}" x2="{one:.1f}" y2="{bottom}" stroke="#333333"/>',
    ]
    for index, (name, ratio) in enumerate(rows, 1):
        y, end = top + STEP * index, at(ratio)
        begin, width = min(one, end), max(abs(end - one), 1.5)
        lines += [
            f'<text x="{LEFT - 40}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{begin:.1f}" y="{y + 2}" width="{width:.1f}" height="{STEP - 5}" fill="{colour(ratio, noise)}"/>',
        ]
        if ratio < 1 - noise:
            lines.append(f'<text x="{end - 5:.1f}" y="{y + 12}" text-anchor="end">{ratio:.2f}</text>')
        else:
            lines.append(f'<text x="{max(one, end) + 6:.1f}" y="{y + 12}">{ratio:.2f}</text>')
    return lines
