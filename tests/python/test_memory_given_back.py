"""GPU memory that is not in use is not kept: contexts with shares leave none, and the pool stays near its peak."""

from __future__ import annotations

import gc
import math
import random

import pytest

import pygpukit as gp
from pygpukit.scheduler.execution import context_session, create_context, destroy_context, initialize, reset

MB = 1 << 20


def free_bytes():
    gc.collect()
    gp.synchronize()
    gp.device("cuda").trim()
    return gp.device("cuda").memory_info()[0]


@pytest.fixture
def contexts():
    """Contexts on the GPU, none before and none after."""
    with gp.device("cuda"):
        reset()
        initialize(device_id=0)
        yield
        reset()


@pytest.mark.gpu
@pytest.mark.parametrize("shares", [(0.25,), (0.25, 0.5, 0.75), tuple(k / 16 for k in range(1, 16))], ids=len)
def test_contexts_with_shares_leave_no_memory(contexts, shares):
    def use(name, share):
        with context_session(create_context(name, compute=share)):
            x = gp.full((256, 256), 2.0)
            y = gp.add(x, x)
        assert float(y[3, 5]) == 4.0
        del x, y
        destroy_context(name)

    use("first", 1.0)  # kernels are loaded and the device is set up once
    before = free_bytes()
    for index in range(2000):
        use(f"c{index}", shares[index % len(shares)])
    left = before - free_bytes()
    assert left <= 64 * MB, f"{left / MB:.0f} MiB are gone after 2000 contexts"


def sizes_of(kind, rng):
    if kind == "uniform":
        return rng.randrange(1024, 800 * MB)
    return int(1024 * math.exp(rng.random() * math.log(800 * MB / 1024)))


@pytest.mark.gpu
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "runs_ahead"])
@pytest.mark.parametrize("kind", ["uniform", "log_uniform"])
def test_random_sizes_keep_the_pool_near_its_peak(kind, waits):
    rng = random.Random(5)
    with gp.device("cuda"):
        device = gp.device("cuda")
        start = device.memory_stats()["peak_live_bytes"]
        peak = 0
        for _ in range(3000):
            arrays = [gp.empty((sizes_of(kind, rng),), dtype="uint8") for _ in range(3)]
            for a in arrays:
                a[:1] = 1  # work in flight on every block
            peak = max(peak, device.memory_stats()["live_bytes"])
            del a, arrays
            if waits:
                gp.synchronize()
        stats = device.memory_stats()
    assert stats["reserved_bytes"] <= 1.5 * max(peak, start), stats
