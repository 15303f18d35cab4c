"""What the pool keeps and costs when sizes never come again: three arrays of random sizes a step, on a GPU.

`python bench/measure_pool_random.py [--steps 3000] [--most-mb 800]`. One line a case: the peak of live bytes, what the
pool has from the driver, their ratio, microseconds of one `empty` and its free, driver calls and host waits; then the
same of torch, where it is installed.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable
from typing import Any

MB = 1 << 20


def sizes(kind: str, count: int, most: int) -> list[int]:
    rng = random.Random(5)
    if kind == "uniform":
        return [rng.randrange(1024, most) for _ in range(count)]
    return [int(1024 * math.exp(rng.random() * math.log(most / 1024))) for _ in range(count)]


def run(make: Callable[[int], Any], touch: Callable[[Any], Any], wait: Callable[[], Any] | None, all_sizes: list[int]):
    """Microseconds of one array's making and free, without what touches it."""
    spent = 0.0
    for step in range(0, len(all_sizes), 3):
        begin = time.perf_counter()
        arrays = [make(size) for size in all_sizes[step : step + 3]]
        spent += time.perf_counter() - begin
        for array in arrays:
            touch(array)
        begin = time.perf_counter()
        array = None
        arrays.clear()
        spent += time.perf_counter() - begin
        if wait is not None:
            wait()
    return spent / len(all_sizes) * 1e6


def measure(gp: Any, kind: str, waits: bool, steps: int, most: int) -> None:
    device = gp.device("cuda")
    gp.synchronize()
    device.trim()
    before = device.memory_stats()
    us = run(
        lambda size: gp.empty((size,), dtype="uint8"),
        lambda array: array.__setitem__(slice(0, 1), 1),
        gp.synchronize if waits else None,
        sizes(kind, steps * 3, most),
    )
    gp.synchronize()
    after = device.memory_stats()
    peak, reserved = after["peak_live_bytes"], after["reserved_bytes"]
    counts = {name: after[name] - before[name] for name in ("driver_allocations", "driver_frees", "mappings", "waits")}
    print(
        f"pygpukit {kind:12} {'host waits' if waits else 'runs ahead':10} peak live {peak / 1e9:6.2f} GB reserved "
        f"{reserved / 1e9:6.2f} GB ratio {reserved / peak:5.2f} empty+free {us:8.1f} us "
        + " ".join(f"{name} {value}" for name, value in counts.items()),
        flush=True,
    )


def measure_torch(torch: Any, kind: str, waits: bool, steps: int, most: int) -> None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    us = run(
        lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
        lambda array: array[:1].fill_(1),
        torch.cuda.synchronize if waits else None,
        sizes(kind, steps * 3, most),
    )
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()
    print(
        f"torch    {kind:12} {'host waits' if waits else 'runs ahead':10} peak live {peak / 1e9:6.2f} GB reserved "
        f"{reserved / 1e9:6.2f} GB ratio {reserved / peak:5.2f} empty+free {us:8.1f} us",
        flush=True,
    )
    torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--most-mb", type=int, default=800)
    arguments = parser.parse_args()
    import pygpukit as gp

    try:
        import torch
    except ImportError:
        torch = None
    cases = [(kind, waits) for kind in ("uniform", "log_uniform") for waits in (True, False)]
    with gp.device("cuda"):
        gp.runtime._bench_pool(1000)
        for kind, waits in cases:
            measure(gp, kind, waits, arguments.steps, arguments.most_mb * MB)
        gp.device("cuda").trim()
        print(f"pygpukit hit {gp.runtime._bench_pool(200000) / 1e3:.3f} us", flush=True)
    if torch is not None:
        for kind, waits in cases:
            measure_torch(torch, kind, waits, arguments.steps, arguments.most_mb * MB)


if __name__ == "__main__":
    main()
