"""Measures every figure of bench/limits.json on the GPU of this machine and writes them as JSON.

    python bench/measure.py --out FILE [--only submit,start,...,mm_square,...,sweep_1] [--seconds S]

A second run with another --only adds to the same file. Peers are measured in the same run, in turns. What does not fit
into --seconds is left out by name; tools/measure.py goes on with it.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import contest
import measure_asr
import measure_attention
import measure_audio
import measure_elementwise
import measure_fuse
import measure_hearing
import measure_linalg
import measure_llm
import measure_load
import measure_matmul
import measure_nn
import measure_runtime
import measure_sweep
import measure_tts
from measure_elementwise import COLUMNS, NAMES, ROWS, random_array
from report import FOREVER, Report, run_groups
from timing import against_torch_us, gpu_times_us, submit_times_us


def measure_submit(gp: Any, torch: Any, report: Report) -> None:
    """Host time of one call, nothing waited for."""
    a, b = (random_array(gp, (1024,), "float32") for _ in range(2))
    c = gp.empty((1024,), dtype="float32")
    ta, tb, tc = (torch.rand(1024, device="cuda") for _ in range(3))
    source = """
    extern "C" __global__ void scaled_add(float* out, const float* a, const float* b, float factor, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = a[i] + factor * b[i];
    }
    """
    kernel = gp.jit(source, func="scaled_add")
    import cupy

    raw = cupy.RawKernel(source, "scaled_add")
    ca, cb, cc = (cupy.random.rand(1024, dtype=cupy.float32) for _ in range(3))
    factor = np.float32(0.5)
    count = np.int32(1024)

    names = {**locals(), "gp": gp, "torch": torch}
    device = cupy.cuda.Device()
    ours, theirs, custom, rawkernel, allocating, launch = submit_times_us(
        [
            ("gp.add(a, b, out=c)", names, gp.synchronize),
            ("torch.add(ta, tb, out=tc)", names, torch.cuda.synchronize),
            ("kernel(c, a, b, 0.5, 1024)", names, gp.synchronize),
            ("raw((4,), (256,), (cc, ca, cb, factor, count))", names, device.synchronize),
            ("gp.add(a, b)", names, gp.synchronize),
        ],
        lambda count: float(gp._core._time_bare_launch(count, 1)),
    )
    report.add("add_submit_vs_launch", ours / launch, ours_us=ours, launch_us=launch)
    report.add("add_submit_vs_torch", ours / theirs, ours_us=ours, torch_us=theirs)
    report.add("jit_launch_vs_cupy", custom / rawkernel, ours_us=custom, cupy_us=rawkernel)
    report.data["figures"]["add_submit_allocating_us"] = {"value": allocating}


def measure_start(gp: Any, torch: Any, report: Report) -> None:
    """Compilation, first result in a new process, import."""
    times = []
    for turn in range(7):
        source = f"""
        extern "C" __global__ void scale(float* x, float factor, int n) {{
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) x[i] = x[i] * factor + {turn}.{time.time_ns()}e-30f;
        }}
        """
        begin = time.perf_counter()
        gp.jit(source, func="scale")
        times.append(time.perf_counter() - begin)
    report.add("cold_compile_s", float(np.median(times)), all=times)

    first = """
import time, numpy as np, pygpukit as gp
gp.synchronize()
t = time.perf_counter()
a = gp.from_numpy(np.ones(1000, np.float32)); r = gp.add(a, a).to_numpy()
print((time.perf_counter() - t) * 1e3)
"""
    values = [
        float(subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, check=True).stdout)
        for _ in range(6)
    ]
    report.add("first_result_ms", float(np.median(values[1:])), all=values)
    timed = "import time, numpy; t = time.perf_counter(); import pygpukit; print((time.perf_counter() - t) * 1e3)"
    values = [
        float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)
        for _ in range(7)
    ]
    report.add("import_ms_beyond_numpy", float(np.median(values)), all=values)


READ_KERNEL = """
extern "C" __global__ void read_all(const uint4* data, long long count, unsigned* out) {
  unsigned x = 0;
  long long stride = (long long)gridDim.x * blockDim.x;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    uint4 a = data[i], b = data[i + stride], c = data[i + 2 * stride], d = data[i + 3 * stride];
    x ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += stride) { uint4 a = data[i]; x ^= a.x ^ a.y ^ a.z ^ a.w; }
  if (x == 0x12345679u) out[0] = x;
}
"""


def read_ceiling(gp: Any, report: Report, name: str, size: int) -> float:
    """Bytes per microsecond of a kernel that only reads `size` bytes, two buffers in turn so that the L2 holds neither."""
    kernel = gp.jit(READ_KERNEL, func="read_all")
    data = [gp.random.randint(0, 1 << 30, (size // 4,), dtype="int32") for _ in range(2)]
    out = gp.zeros((1,), dtype="uint32")
    pairs = [gp.bitcast(d, "uint32") for d in data]

    def read(blocks: int) -> None:
        for words in pairs:
            kernel.launch((words, size // 16, out), {}, grid=blocks, block=512)

    calls = [(lambda blocks=blocks: read(blocks)) for blocks in (132 * 4, 132 * 8, 132 * 16, 132 * 32)]
    us = min(gpu_times_us(gp, calls)) / 2
    report.add(name, size / us / 1e6, us=us, bytes=size)
    return size / us


def measure_reduce(gp: Any, torch: Any, report: Report) -> None:
    for short, name in NAMES.items():
        tx = torch.rand(ROWS, COLUMNS, device="cuda").to(getattr(torch, name))
        x = gp.from_dlpack(tx)
        moved = tx.numel() * tx.element_size()
        ceiling = read_ceiling(gp, report, f"read_ceiling_{short}_tb_s", moved)
        for label, axis in (("full", None), ("axis0", 0), ("axis1", 1)):
            shape = () if axis is None else ((COLUMNS,) if axis == 0 else (ROWS,))
            out = gp.empty(shape, dtype=name)
            theirs = (lambda: torch.sum(tx)) if axis is None else (lambda axis=axis: torch.sum(tx, dim=axis))
            us, torch_us = against_torch_us(gp, torch, lambda: gp.sum(x, axis=axis, out=out), theirs)
            report.add(f"sum_{label}_{short}_vs_read", moved / us / ceiling, us=us, torch_us=torch_us)


def measure_norm(gp: Any, torch: Any, report: Report) -> None:
    functional = torch.nn.functional
    for short, name in NAMES.items():
        dtype = getattr(torch, name)
        tx = torch.rand(ROWS, COLUMNS, device="cuda").to(dtype)
        tg, tb = (torch.rand(COLUMNS, device="cuda").to(dtype) for _ in range(2))
        x, gamma, beta = (gp.from_dlpack(t) for t in (tx, tg, tb))
        out = gp.empty((ROWS, COLUMNS), dtype=name)
        cases: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
            ("softmax", lambda: gp.softmax(x, axis=-1, out=out), lambda: torch.softmax(tx, -1)),
            (
                "layernorm",
                lambda: gp.layernorm(x, gamma, beta, 1e-5, out=out),
                lambda: functional.layer_norm(tx, (COLUMNS,), tg, tb, 1e-5),
            ),
            (
                "rmsnorm",
                lambda: gp.rmsnorm(x, gamma, 1e-5, out=out),
                lambda: functional.rms_norm(tx, (COLUMNS,), tg, 1e-5),
            ),
        ]
        for label, ours, theirs in cases:
            us, torch_us = against_torch_us(gp, torch, ours, theirs)
            rate = 2 * tx.numel() * tx.element_size() / us / 1e6
            report.add(f"{label}_{short}_vs_torch", torch_us / us, us=us, torch_us=torch_us, tb_s=rate)


def digest(array: Any) -> str:
    return hashlib.sha256(array.to_numpy().tobytes()).hexdigest()


def measure_determinism(gp: Any, torch: Any, report: Report) -> None:
    """Distinct hashes over 1,000 repeats, Philox on both backends, replays of a graph of 50 random ops."""
    x = gp.random.normal((257, 1031), dtype="float32", seed=7)
    m = gp.random.normal((1031, 129), dtype="float32", seed=8)
    cases = {
        "sum": lambda: gp.sum(x),
        "mean": lambda: gp.mean(x),
        "prod": lambda: gp.prod(x),
        "var": lambda: gp.var(x),
        "std": lambda: gp.std(x),
        "max": lambda: gp.max(x),
        "min": lambda: gp.min(x),
        "argmax": lambda: gp.argmax(x),
        "argmin": lambda: gp.argmin(x),
        "sum0": lambda: gp.sum(x, axis=0),
        "sum1": lambda: gp.sum(x, axis=1),
        "cumsum": lambda: gp.cumsum(x, axis=1),
        "softmax": lambda: gp.softmax(x),
        "matmul": lambda: gp.matmul(x, m),
    }
    worst = max(len({digest(call()) for _ in range(1000)}) for call in cases.values())
    report.add("repeat_hashes", worst, cases=sorted(cases))
    same = 0
    draws = {
        f"{kind}_{dtype}": (kind, dtype)
        for kind in ("uniform", "normal")
        for dtype in ("float16", "bfloat16", "float32", "float64")
    }
    for kind, dtype in draws.values():
        function = getattr(gp.random, kind)
        same += digest(function((100003,), dtype=dtype, seed=11, device="cpu")) == digest(
            function((100003,), dtype=dtype, seed=11, device="cuda")
        )
    same += digest(gp.random.randint(-5, 1000, (100003,), seed=11, device="cpu")) == digest(
        gp.random.randint(-5, 1000, (100003,), seed=11, device="cuda")
    )
    report.add("philox_equal_hashes", same, wanted=len(draws) + 1)

    rng = np.random.default_rng(5)
    unary = [gp.exp, gp.tanh, gp.sin, gp.sigmoid, gp.gelu, gp.silu, gp.abs, gp.neg]
    binary = [gp.add, gp.mul, gp.sub, gp.maximum]
    buffers = [gp.random.normal((300, 257), dtype="float32", seed=i) for i in range(6)]
    steps = []
    for _ in range(50):
        target = int(rng.integers(6))
        if rng.integers(2):
            steps.append((unary[int(rng.integers(len(unary)))], [int(rng.integers(6))], target))
        else:
            steps.append((binary[int(rng.integers(4))], [int(rng.integers(6)), int(rng.integers(6))], target))

    def chain(arrays: list[Any]) -> None:
        for function, sources, target in steps:
            function(*[arrays[i] for i in sources], out=arrays[target])
        for array in arrays:
            gp.clamp(array, -2.0, 2.0, out=array)

    eager = [b.copy() for b in buffers]
    chain([b.copy() for b in buffers])
    graph = gp.CudaGraph()
    graph.begin_capture()
    chain(buffers)
    graph.end_capture()
    different = 0
    for _ in range(1000):
        graph.replay()
        chain(eager)
        different += any(digest(a) != digest(b) for a, b in zip(buffers, eager, strict=True))
    report.add("graph_replays_different", different, verify=graph.verify())


GROUPS = {
    "submit": measure_submit,
    "start": measure_start,
    **measure_elementwise.GROUPS,
    "reduce": measure_reduce,
    "norm": measure_norm,
    "determinism": measure_determinism,
    **measure_runtime.GROUPS,
    **measure_matmul.GROUPS,
    **measure_attention.GROUPS,
    **measure_nn.GROUPS,
    **measure_fuse.GROUPS,
    **measure_linalg.GROUPS,
    **measure_audio.GROUPS,
    **measure_load.GROUPS,
    **measure_llm.GROUPS,
    **measure_asr.GROUPS,
    **measure_tts.GROUPS,
    **measure_hearing.GROUPS,
    **measure_sweep.GROUPS,
}
VENDOR = "mm_lt"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups of figures, in this order")
    parser.add_argument("--turn", type=float, default=0.0, help="seconds a turn of matrix products lasts at least")
    parser.add_argument("--seconds", type=float, default=FOREVER, help="of all groups together")
    parser.add_argument("--seed", type=int, help="of the sweep (the clock)")
    options = parser.parse_args()
    contest.LEAST_S = options.turn
    measure_sweep.SEED = measure_sweep.SEED if options.seed is None else options.seed
    groups = options.only.split(",")
    if unknown := [group for group in groups if group not in GROUPS]:
        parser.error(f"--only: no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    os.environ["PYGPUKIT_DEVICE"] = "cuda"
    if VENDOR in groups and groups != [VENDOR]:
        until = time.monotonic() + options.seconds
        groups.remove(VENDOR)
        status = measure_groups(groups, options.out, options.seconds)
        command = [sys.executable, __file__, "--out", str(options.out), "--only", VENDOR, "--turn", str(options.turn)]
        command += ["--seconds", str(until - time.monotonic())]
        return status or subprocess.run(command).returncode
    return measure_groups(groups, options.out, options.seconds)


def measure_groups(groups: list[str], out: pathlib.Path, seconds: float) -> int:
    """In this process, which reads its environment now: cuBLASLt is off for every group but its own."""
    until = time.monotonic() + seconds
    own = groups == [VENDOR]
    os.environ |= {"PYGPUKIT_NO_CUBLASLT": "0", "PYGPUKIT_PREFER_CUBLASLT": "1"} if own else {"PYGPUKIT_NO_CUBLASLT": "1"}
    import torch

    import pygpukit as gp

    info = gp.get_device_info()
    device = {
        "name": info.name,
        "memory": info.total_memory,
        "sm": info.compute_capability,
        "torch": torch.__version__,
        "version": gp.__version__,
    }

    def alive() -> bool:
        try:
            return float(gp.ones((1,)).item() + torch.ones(1, device="cuda").item()) == 2.0
        except Exception:
            return False

    def tidy() -> None:
        gc.collect()
        torch.cuda.empty_cache()
        gp.default_device().trim()

    report = Report(out, device)
    calls = {group: functools.partial(GROUPS[group], gp, torch, report) for group in groups}
    return run_groups(report, calls, until - time.monotonic(), alive, tidy)


if __name__ == "__main__":
    sys.exit(main())
