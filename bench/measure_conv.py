"""The figures of convolutions, `nn_conv_*`: Whisper's two layers, a vocoder's residual blocks and shapes drawn by the
clock, against torch's cuDNN with its own choice of algorithm. See measure.py.
"""

from __future__ import annotations

import functools
import random
import time
from typing import Any

import numpy as np

import contest
from contest import MANY_S, Contest, geomean, size, tenth
from measure_attention import against_best, torch_calls

WHISPER = {  # in, out channels, length, taps, stride, padding
    "whisper_1": (128, 1280, 3000, 3, 1, 1),
    "whisper_2": (1280, 1280, 3000, 3, 2, 1),
}
KOKORO = [(channels, taps, dilation) for channels in (128, 256, 512) for taps in (3, 7, 11) for dilation in (1, 5)]
SAMPLES = {128: 60000, 256: 10000, 512: 2000}
BOUNDS = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-4, "tf32": 2e-3}
DRAWN, DRAWN_S = 40, 60.0


def conv_duel(
    c: Contest, name: str, shape: tuple[int, int, int, int], dtype: str, **options: Any
) -> tuple[float, float]:
    """Microseconds of ours and of cuDNN's conv1d of [1, in, length] by [out, in, taps]."""
    ins, outs, length, taps = shape
    stored = "float32" if dtype == "tf32" else dtype
    if dtype == "tf32":
        options["use_tf32"] = True
    count = c.copies((4 if stored == "float32" else 2) * (ins * length + outs * ins * taps))
    copies = [
        {
            "x": c.normal((1, ins, length), stored),
            "w": c.normal((outs, ins, taps), stored),
            "b": c.normal((outs,), stored),
        }
        for _ in range(count)
    ]
    ours = [functools.partial(c.gp.conv1d, x["x"], x["w"], x["b"], **options) for x in copies]
    out = ours[0]()
    ours = [functools.partial(call, out=out) for call in ours]
    theirs = torch_calls(c, copies, "conv1d", options)
    us, torch_us, _ = against_best(c, name, ours, theirs, MANY_S, BOUNDS[dtype])
    return us, torch_us


def measure_conv(gp: Any, torch: Any, report: Any) -> None:
    """Whisper's two layers in bfloat16; the residual blocks of a vocoder in float32, exactly, and in float16."""
    c = Contest(gp, torch, report)
    for label, (ins, outs, length, taps, stride, padding) in WHISPER.items():
        name = f"nn_conv_{label}_vs_torch"
        with c.guard(name):
            shape = (size(ins), size(outs), size(length), taps)
            c.add_ratio(name, *conv_duel(c, name, shape, "bfloat16", stride=stride, padding=padding))
    for figure, dtype in (("nn_conv_kokoro", "float32"), ("nn_conv_kokoro_f16", "float16")):
        found: dict[str, dict[str, float]] = {}
        for channels, taps, dilation in KOKORO:
            name = f"{figure} {channels} channels, {taps} taps, dilation {dilation}"
            with c.guard(name):
                n = size(channels)
                # The last stage has one sample more than a multiple of 60: rows start anywhere in 16 bytes.
                shape = (n, n, size(SAMPLES[channels]) + (1 if channels == 128 else 0), taps)
                padding = dilation * (taps - 1) // 2
                us, torch_us = conv_duel(c, name, shape, dtype, padding=padding, dilation=dilation)
                found[f"{channels}x{taps}x{dilation}"] = {"us": us, "torch_us": torch_us, "vs_torch": torch_us / us}
        report.add(f"{figure}_shapes", len(found), shapes=found)
        if len(found) == len(KOKORO):
            ratios = [row["vs_torch"] for row in found.values()]
            worst = min(found, key=lambda key: found[key]["vs_torch"])
            report.add(f"{figure}_geomean_vs_torch", geomean(ratios), turn_s=c.turn_s)
            report.add(f"{figure}_min_vs_torch", min(ratios), shape=worst, turn_s=c.turn_s)


def drawn_shape(rng: random.Random) -> dict[str, Any]:
    """Channels of any number, taps of any reach, any length; not more work than 40 GFLOP."""
    while True:
        shape: dict[str, Any] = {
            "ins": int(np.exp(rng.uniform(np.log(32), np.log(1400)))),
            "outs": int(np.exp(rng.uniform(np.log(32), np.log(1400)))),
            "length": int(np.exp(rng.uniform(np.log(200), np.log(60000)))),
            "taps": rng.randint(1, 11),
            "stride": rng.choice((1, 1, 1, 2, 3)),
            "dilation": rng.choice((1, 1, 2, 3, 5)),
            "dtype": rng.choice(("float16", "bfloat16", "tf32")),
        }
        if 2.0 * shape["ins"] * shape["outs"] * shape["taps"] * shape["length"] < 4e10:
            return shape


def measure_drawn_conv(gp: Any, torch: Any, report: Any) -> None:
    """Shapes drawn by the clock, on tensor cores."""
    c = Contest(gp, torch, report)
    seed = time.time_ns() % 2**32
    rng, until = random.Random(seed), time.monotonic() + DRAWN_S
    found: dict[str, dict[str, Any]] = {}
    for _ in range(DRAWN if contest.DIVIDE == 1 else 3):
        if time.monotonic() > until:
            break
        s = drawn_shape(rng)
        name = "nn_conv_drawn " + "x".join(str(value) for value in s.values())
        with c.guard(name):
            shape = (s["ins"], s["outs"], s["length"], s["taps"])
            if contest.DIVIDE != 1:
                shape = (size(s["ins"]), size(s["outs"]), size(s["length"]), s["taps"])
            padding = s["dilation"] * (s["taps"] - 1) // 2
            options = {"stride": s["stride"], "dilation": s["dilation"], "padding": padding}
            us, torch_us = conv_duel(c, name, shape, s["dtype"], **options)
            found[name] = {**s, "us": us, "torch_us": torch_us, "vs_torch": torch_us / us}
    report.add("nn_conv_drawn_shapes", len(found), seed=seed, shapes=found)
    if len(found) < (DRAWN // 2 if contest.DIVIDE == 1 else 2):
        return
    ratios = [row["vs_torch"] for row in found.values()]
    worst = min(found, key=lambda key: found[key]["vs_torch"])
    report.add("nn_conv_drawn_geomean_vs_torch", geomean(ratios), count=len(ratios), seed=seed)
    report.add("nn_conv_drawn_tenth_vs_torch", tenth(ratios), worst=worst, seed=seed)
