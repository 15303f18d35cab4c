"""Measures the CPU backend against NumPy in the same process, in turns: `python bench/measure_cpu.py --out cpu.json`.

Then all operations by two threads (measure_cpu_ops.py), and a language model by two threads, against what they read; speech
recognition and speech where PYGPUKIT_ASSETS names the folder of real weights. The file holds {name: {"value": ...}};
tools/measure_host.py puts it among the figures of the host.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import measure_asr
import measure_tts
import pygpukit as gp
from cpu_figures import report

PARTS = ("matmul", "linalg", "language", "operations", "speech")
SIZES = (512, 1024, 2048)
LINALG_SIZES = (128, 512, 1024)
TURN_S = 0.1  # one contender's turn at least
PAUSE_S = 0.15  # before a turn: the threads of the other contender look out for work a while before they sleep


def turn_us(call: Callable[[], object], calls: int) -> float:
    time.sleep(PAUSE_S)
    call()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls * 1e6


def versus_numpy(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> dict[str, float]:
    """NumPy's time over ours, medians."""

    def mine() -> None:
        ours()
        gp.synchronize("cpu")

    calls = [max(1, round(TURN_S * 1e6 / turn_us(call, 2))) for call in (mine, theirs)]
    samples = [(turn_us(mine, calls[0]), turn_us(theirs, calls[1])) for _ in range(repeats)]
    us, numpy_us = (statistics.median(x) for x in zip(*samples, strict=True))
    return {"value": round(numpy_us / us, 3), "us": round(us, 1), "numpy_us": round(numpy_us, 1)}


def matmul_figure(size: int, repeats: int) -> dict[str, float]:
    """Of square float32 matrices."""
    rng = np.random.default_rng(size)
    left, right = (rng.uniform(-1, 1, (size, size)).astype(np.float32) for _ in range(2))
    result = np.empty_like(left)
    a, b = (gp.from_numpy(x, device="cpu") for x in (left, right))
    out = gp.zeros((size, size), device="cpu")
    figure = versus_numpy(lambda: gp.matmul(a, b, out=out), lambda: np.matmul(left, right, out=result), repeats)
    if not np.allclose(out.to_numpy(), result, atol=size * 2.0**-24, rtol=1e-5):
        raise SystemExit(f"matmul of {size}: ours and NumPy's results differ")
    return {**figure, "gflop_s": round(2 * size**3 / figure["us"] * 1e-3, 1)}


def linalg_figures(repeats: int) -> dict[str, object]:
    """Factorisations and systems of float64."""
    figures: dict[str, object] = {}
    for size in LINALG_SIZES:
        values = np.random.default_rng(size).standard_normal((size, size))
        square, right = values @ values.T / size + np.eye(size), values[:, :1].copy()
        x, b = (gp.from_numpy(array, device="cpu") for array in (square, right))
        calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "cholesky": (lambda x=x: gp.linalg.cholesky(x), lambda x=square: np.linalg.cholesky(x)),
            "solve": (lambda x=x, b=b: gp.linalg.solve(x, b), lambda x=square, b=right: np.linalg.solve(x, b)),
            "inv": (lambda x=x: gp.linalg.inv(x), lambda x=square: np.linalg.inv(x)),
            "qr": (lambda x=x: gp.linalg.qr(x), lambda x=square: np.linalg.qr(x)),
        }
        for op, (ours, theirs) in calls.items():
            figures[f"cpu_linalg_{op}_f64_{size}_vs_numpy"] = versus_numpy(ours, theirs, repeats)
    return figures


def language_figure(repeats: int) -> dict[str, object]:
    """Bytes of the weights of stories15M's shape by the time of a token, over the rate of reading as much."""
    from pygpukit.benchmark.language import LanguageDecodeBenchmark, LanguageModel
    from pygpukit.benchmark.timing import Effort, HostTimer, take_turns

    model = LanguageModel("stories15m")
    size = model.model.weight_bytes
    data, total = gp.random.uniform((size // 4,), dtype="float32", seed=1), gp.empty((), dtype="float32")
    reading = HostTimer([lambda: gp.sum(data, out=total)], gp.synchronize)
    decoding = LanguageDecodeBenchmark(model, 1, 64).timer()
    token, read = (s.median for s in take_turns([decoding, reading], Effort(5, 5 * repeats, TURN_S * 1e6)))
    return {
        "value": round(read / token, 3),
        "token_us": round(token, 1),
        "read_us": round(read, 1),
        "weight_bytes": size,
        "tokens_per_second": round(1e6 / token, 1),
    }


def of_two_threads(*command: str) -> dict[str, object]:
    """What a program of this folder prints, run by two threads of the CPU."""
    two = {**os.environ, "PYGPUKIT_NUM_THREADS": "2", "PYGPUKIT_DEVICE": "cpu"}
    path = str(Path(__file__).with_name(command[0]))
    printed = subprocess.run([sys.executable, path, *command[1:]], env=two, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, object] = json.loads(printed.stdout)
    return figures


def speech_figures(assets: Path) -> dict[str, object]:
    return {**measure_asr.cpu_figures(assets, minutes=10), "cpu_tts": measure_tts.cpu_figure()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as well, beside those the file has")
    parser.add_argument("--parts", default=",".join(PARTS), help="these alone, separated by commas")
    parser.add_argument("--language", action="store_true", help="print the figure of the language model alone")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    if options.language:
        print(json.dumps(language_figure(options.repeats)))
        return
    parts, figures = options.parts.split(","), dict[str, object]()
    if "matmul" in parts:
        figures.update({f"cpu_matmul_f32_{size}_vs_numpy": matmul_figure(size, options.repeats) for size in SIZES})
    if "linalg" in parts:
        figures.update(linalg_figures(options.repeats))
    if "language" in parts:
        repeats = str(options.repeats)
        figures["cpu_stories15m_share_of_read"] = of_two_threads(Path(__file__).name, "--language", "--repeats", repeats)
    if "operations" in parts:
        figures.update(of_two_threads("measure_cpu_ops.py"))
    if "speech" in parts and (assets := os.environ.get("PYGPUKIT_ASSETS")):
        figures.update(speech_figures(Path(assets)))
    report(figures, options.out)


if __name__ == "__main__":
    main()
