"""Measures the CPU backend against NumPy in the same process, in turns: `python bench/measure_cpu.py --out cpu.json`.

The file holds {name: {"value": ...}}; tools/measure_host.py puts it among the figures of the host.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pygpukit as gp

SIZES = (512, 1024, 2048)
TURN_S = 0.1  # one contender's turn at least
PAUSE_S = 0.1  # before a turn: the threads of the other contender look out for work a while before they sleep


def turn_us(call: Callable[[], object], calls: int) -> float:
    time.sleep(PAUSE_S)
    call()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls * 1e6


def matmul_figure(size: int, repeats: int) -> dict[str, object]:
    """NumPy's time over ours, medians, for square float32 matrices."""
    rng = np.random.default_rng(size)
    left, right = (rng.uniform(-1, 1, (size, size)).astype(np.float32) for _ in range(2))
    result = np.empty_like(left)
    a, b = (gp.from_numpy(x, device="cpu") for x in (left, right))
    out = gp.zeros((size, size), device="cpu")

    def ours() -> None:
        gp.matmul(a, b, out=out)
        gp.synchronize("cpu")

    def theirs() -> None:
        np.matmul(left, right, out=result)

    calls = [max(1, round(TURN_S * 1e6 / turn_us(call, 2))) for call in (ours, theirs)]
    samples = [(turn_us(ours, calls[0]), turn_us(theirs, calls[1])) for _ in range(repeats)]
    if not np.allclose(out.to_numpy(), result, atol=size * 2.0**-24, rtol=1e-5):
        raise SystemExit(f"matmul of {size}: ours and NumPy's results differ")
    us, numpy_us = (statistics.median(x) for x in zip(*samples, strict=True))
    return {
        "value": round(numpy_us / us, 3),
        "us": round(us, 1),
        "numpy_us": round(numpy_us, 1),
        "gflop_s": round(2 * size**3 / us * 1e-3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as well")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    figures = {f"cpu_matmul_f32_{size}_vs_numpy": matmul_figure(size, options.repeats) for size in SIZES}
    text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
    print(text, end="")
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
