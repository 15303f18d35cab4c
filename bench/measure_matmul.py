"""The figures of matrix products, `mm_*`, against torch: dense, float8, int8, fused, and what a call costs the host;
grouped ones against the same work as separate products.

`_nk` in a name: the weights are [n, k] and the product is x @ w.T, both operands along k; without it both are row-major.
A figure with a `goal` has no limit yet. Matrix-vector products: measure_gemv.py; the cost of
`batch_invariant`: measure_invariant.py; with cuBLASLt: measure_vendor.py. See measure.py.
"""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import measure_gemv
import measure_invariant
import measure_vendor
from contest import CLOSE_S, LLM_ROWS, LLM_WEIGHTS, MANY_S, POWER_S, Call, Contest, geomean, size
from timing import submit_times_us

BOUNDS = {"bfloat16": 1e-2, "float16": 3e-3, "tf32": 2e-3, "float32": 1e-5, "int8": 0.0, "float8": 1e-2}


def matmul_calls(c: Contest, pairs: Sequence[tuple[Any, Any]], out: Any, **options: Any) -> list[Call]:
    return [functools.partial(c.gp.matmul, a, b, out=out, **options) for a, b in pairs]


def torch_calls(c: Contest, pairs: Sequence[tuple[Any, Any]], out: Any, tf32: bool = False) -> list[Call]:
    torch = c.torch
    precision = "high" if tf32 else "highest"
    target = c.tensor(out)

    def multiply(x: Any, y: Any) -> Any:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            return torch.mm(x, y, out=target)
        finally:
            torch.set_float32_matmul_precision(before)

    return [functools.partial(multiply, c.tensor(a), c.tensor(b)) for a, b in pairs]


def layouts(weights: Sequence[Any], k: int, n: int) -> Iterator[tuple[str, list[Any]]]:
    """The same memory as b [k, n]: along k, then row-major."""
    yield "_nk", [w.T for w in weights]
    yield "", [w.reshape(k, n) for w in weights]


def dense_us(
    c: Contest, name: str, acts: Sequence[Any], weights: Sequence[Any], turn_s: float, tf32: bool = False
) -> tuple[float, float]:
    """a @ b by matmul and by torch.mm."""
    pairs = list(zip(acts, weights, strict=True))
    dtype = str(acts[0].dtype)
    shape = (acts[0].shape[0], weights[0].shape[1])
    out, other = (c.gp.zeros(shape, dtype=dtype) for _ in range(2))
    ours = matmul_calls(c, pairs, out, use_tf32=True if tf32 else None)
    bound = BOUNDS["tf32" if tf32 else dtype]
    return c.duel(name, ours, lambda: torch_calls(c, pairs, other, tf32), bound, turn_s)


def square(
    c: Contest, short: str, n: int, dtype: str, wanted: dict[str, float], tf32: bool = False, **details: Any
) -> None:
    """A square product in the layouts of `wanted`, {suffix: length of a turn}."""
    d = size(n)
    with c.guard(f"mm_{short}_{n}"):
        count = c.copies(2 * d * d * (4 if dtype == "float32" else 2))
        acts, weights = ([c.normal((d, d), dtype) for _ in range(count)] for _ in range(2))
        for suffix, operands in layouts(weights, d, d):
            if suffix not in wanted:
                continue
            name = f"mm_{short}_{n}{suffix}_vs_torch"
            with c.guard(name):
                us, torch_us = dense_us(c, name, acts, operands, wanted[suffix], tf32)
                c.add_ratio(name, us, torch_us, tflops=2e-6 * d**3 / us, **details)


def measure_square(gp: Any, torch: Any, report: Any) -> None:
    c = Contest(gp, torch, report)
    for short, dtype in (("bf16", "bfloat16"), ("f16", "float16")):
        for n in (1024, 2048, 4096, 8192):
            square(c, short, n, dtype, {"": CLOSE_S, "_nk": MANY_S})
    for n in (4096, 8192):
        square(c, "tf32", n, "float32", {"": CLOSE_S, "_nk": CLOSE_S}, tf32=True, goal=0.85)
        square(c, "f32", n, "float32", {"": CLOSE_S}, goal=0.90)


def measure_llm(gp: Any, torch: Any, report: Any) -> None:
    """The layers of two models at 16 to 2048 tokens, weights [n, k]."""
    c = Contest(gp, torch, report)
    found: dict[str, dict[str, float]] = {}
    for k, n in LLM_WEIGHTS:
        with c.guard(f"mm_llm_{k}x{n}"):
            kk, nn = size(k), size(n)
            weights = [c.normal((nn, kk), "bfloat16").T for _ in range(c.copies(2 * kk * nn))]
            for m in LLM_ROWS:
                acts = [c.normal((size(m), kk), "bfloat16") for _ in weights]
                name = f"mm_llm_nk_{m}x{k}x{n}"
                with c.guard(name):
                    us, torch_us = dense_us(c, name, acts, weights, MANY_S)
                    found[f"{m}x{k}x{n}"] = {"us": us, "torch_us": torch_us, "vs_torch": torch_us / us}
    report.add("mm_llm_nk_shapes", len(found), shapes=found)
    if len(found) == len(LLM_WEIGHTS) * len(LLM_ROWS):
        ratios = [figure["vs_torch"] for figure in found.values()]
        report.add("mm_llm_nk_geomean_vs_torch", geomean(ratios), turn_s=c.turn_s)
        worst = min(found, key=lambda shape: found[shape]["vs_torch"])
        report.add("mm_llm_nk_min_vs_torch", min(ratios), shape=worst, turn_s=c.turn_s)


def scaled_calls(c: Contest, works: Sequence[Any], out: Any) -> list[Call]:
    """`works` are ((codes of a, scales), (codes of b, scales)), b [n, k]."""
    return [functools.partial(c.gp.scaled_matmul, a, b, s, t, out=out) for (a, s), (b, t) in works]


def torch_scaled_calls(c: Contest, works: Sequence[Any], out: Any, fast: bool) -> list[Call]:
    torch = c.torch
    target = c.tensor(out)
    return [
        functools.partial(
            torch._scaled_mm, c.tensor(a), c.tensor(b).t(), c.tensor(s), c.tensor(t).t() if t.ndim == 2 else c.tensor(t),
            out_dtype=torch.bfloat16, use_fast_accum=fast, out=target,
        )
        for (a, s), (b, t) in works
    ]  # fmt: skip


def measure_fp8(gp: Any, torch: Any, report: Any) -> None:
    """float8_e4m3 into bfloat16; torch without and with its fast accumulation."""
    c = Contest(gp, torch, report)
    blocks: dict[str, tuple[Any, Any]] = {
        "tensor": ("tensor", "tensor"),
        "row": ("row", "row"),
        "block": (128, (128, 128)),
    }
    for n in (4096, 8192):
        with c.guard(f"mm_fp8_{n}"):
            d = size(n)
            count = c.copies(2 * d * d)
            plain = [(c.normal((d, d), "bfloat16"), c.normal((d, d), "bfloat16")) for _ in range(count)]
            out, other = (gp.zeros((d, d), dtype="bfloat16") for _ in range(2))
            contenders: dict[str, Any] = {}
            for kind, (block_a, block_b) in blocks.items():
                works = [
                    (gp.quantize(a, "fp8_e4m3", block=block_a), gp.quantize(b, "fp8_e4m3", block=block_b))
                    for a, b in plain
                ]
                calls = scaled_calls(c, works, out)
                contenders[kind] = functools.partial(c.ours, calls)
                if kind == "block":
                    continue
                for suffix, fast in (("", False), ("_fast", True)):
                    label = f"mm_fp8_{kind}_{n}_vs_torch{suffix}"
                    with c.guard(label):
                        peer_calls = torch_scaled_calls(c, works, other, fast)
                        c.agree(calls[0], peer_calls[0], BOUNDS["float8"])
                        contenders[label] = functools.partial(c.theirs, peer_calls)
            us = c.race(contenders, CLOSE_S)
            for label, torch_us in us.items():
                if "_vs_torch" in label:
                    with c.guard(label):
                        ours_us = us["row" if "_row_" in label else "tensor"]
                        c.add_ratio(label, ours_us, torch_us, tflops=2e-6 * d**3 / ours_us)
            report.add(
                f"mm_fp8_block_{n}_vs_row", us["row"] / us["block"], us=us["block"], row_us=us["row"], turn_s=c.turn_s
            )


def measure_int8(gp: Any, torch: Any, report: Any) -> None:
    """int8 into int32, exact."""
    c = Contest(gp, torch, report)
    for n in (4096, 8192):
        with c.guard(f"mm_int8_{n}"):
            d = size(n)
            acts, weights = ([c.codes((d, d)) for _ in range(c.copies(2 * d * d))] for _ in range(2))
            out, other = (gp.zeros((d, d), dtype="int32") for _ in range(2))
            for suffix, operands in layouts(weights, d, d):
                name = f"mm_int8_{n}{suffix}_vs_torch"
                with c.guard(name):
                    pairs = list(zip(acts, operands, strict=True))

                    def theirs() -> list[Call]:
                        target = c.tensor(other)
                        return [
                            functools.partial(torch._int_mm, c.tensor(a), c.tensor(b), out=target) for a, b in pairs
                        ]

                    ours = matmul_calls(c, pairs, out, out_dtype="int32")
                    us, torch_us = c.duel(name, ours, theirs, BOUNDS["int8"], CLOSE_S if suffix else MANY_S)
                    c.add_ratio(name, us, torch_us, tflops=2e-6 * d**3 / us)


def measure_fused(gp: Any, torch: Any, report: Any) -> None:
    """Layers of 2048 tokens, 4096 to 14336, in one pass against torch's product and what follows it."""
    c = Contest(gp, torch, report)
    functional = torch.nn.functional
    m, k, n = (size(x) for x in (2048, 4096, 14336))
    count = c.copies(2 * (m * k + n * k))
    acts = [c.normal((m, k), "bfloat16") for _ in range(count)]
    weights, gates = ([c.normal((n, k), "bfloat16") for _ in range(count)] for _ in range(2))
    bias, residual = c.normal((n,), "bfloat16"), c.normal((m, n), "bfloat16")
    out = gp.zeros((m, n), dtype="bfloat16")

    def partials(function: Any, *lists: Sequence[Any]) -> list[Call]:
        return [functools.partial(function, *operands) for operands in zip(*lists, strict=True)]

    def tensors(*lists: Sequence[Any]) -> list[list[Any]]:
        return [[c.tensor(array) for array in arrays] for arrays in lists]

    def torch_gelu() -> list[Call]:
        b = c.tensor(bias)
        return partials(
            lambda x, w: functional.gelu(functional.linear(x, w, b), approximate="tanh"), *tensors(acts, weights)
        )

    def torch_residual() -> list[Call]:
        r = c.tensor(residual)
        return partials(lambda x, w: functional.linear(x, w).add_(r), *tensors(acts, weights))

    def torch_addmm() -> list[Call]:
        r = c.tensor(residual)
        return partials(lambda x, w: torch.addmm(r, x, w.t()), *tensors(acts, weights))

    def torch_swiglu() -> list[Call]:
        return partials(
            lambda x, g, u: functional.silu(functional.linear(x, g)).mul_(functional.linear(x, u)),
            *tensors(acts, gates, weights),
        )

    with_residual = partials(functools.partial(gp.linear, residual=residual, out=out), acts, weights)
    cases = [
        (
            "bias_gelu_vs_torch",
            partials(lambda x, w: gp.linear_bias_gelu(x, w, bias, out=out), acts, weights),
            torch_gelu,
            1.04,
        ),
        ("residual_vs_torch", with_residual, torch_residual, 1.05),
        ("residual_vs_torch_addmm", with_residual, torch_addmm, 1.0),
        (
            "swiglu_vs_torch",
            partials(functools.partial(gp.linear_swiglu, out=out), acts, gates, weights),
            torch_swiglu,
            1.08,
        ),
    ]
    for label, ours, theirs, goal in cases:
        name = f"mm_fused_{label}"
        with c.guard(name):
            c.add_ratio(name, *c.duel(name, ours, theirs, BOUNDS["bfloat16"], POWER_S), goal=goal)


GROUPED = {  # rows, k, n, experts
    "mixtral": (4096, 4096, 14336, 8),
    "qwen_moe": (4096, 2048, 1408, 64),
}


def separate_products(gp: Any, x: Any, w: Any, ends: Sequence[int], out: Any) -> Any:
    """Rows of x up to ends[0] by the first matrix, up to ends[1] by the second, and so on."""
    first = 0
    for expert, end in enumerate(ends):
        if end > first:
            gp.matmul(x[first:end], w[expert].T, out=out[first:end])
        first = end
    return out


def measure_grouped(gp: Any, torch: Any, report: Any) -> None:
    """Rows in any order by the experts of a layer, against matmul of each expert's rows, gathered beforehand."""
    c = Contest(gp, torch, report)
    for label, (rows, inner, columns, experts) in GROUPED.items():
        name = f"mm_grouped_{label}_vs_separate"
        with c.guard(name):
            m, k, n = size(rows), size(inner), size(columns)
            weights = [c.normal((experts, n, k), "bfloat16") for _ in range(c.copies(2 * experts * n * k))]
            x, out, other = c.normal((m, k), "bfloat16"), *(gp.zeros((m, n), dtype="bfloat16") for _ in range(2))
            ids = gp.random.randint(0, experts, (m,), dtype="int32", seed=1)
            host = ids.to_numpy()
            order = gp.from_numpy(np.argsort(host, kind="stable"))
            ends = np.cumsum(np.bincount(host, minlength=experts)).tolist()
            gathered = gp.take(x, order, axis=0)
            ours = [functools.partial(gp.grouped_matmul, x, w, ids, out=out) for w in weights]
            parts = [functools.partial(separate_products, gp, gathered, w, ends, other) for w in weights]
            c.agree(lambda: gp.take(ours[0](), order, axis=0), parts[0], BOUNDS["bfloat16"])
            us = c.race({name: lambda: c.ours(ours), f"{name} apart": lambda: c.ours(parts)}, CLOSE_S)
            ours_us, apart_us = us[name], us[f"{name} apart"]
            tflops = 2e-6 * m * n * k / ours_us
            report.add(name, apart_us / ours_us, us=ours_us, separate_us=apart_us, tflops=tflops, goal=0.85, turn_s=c.turn_s)


HOST_SHAPES = (  # m, k, n, dtype: each wants another kernel
    (128, 4096, 4096, "bfloat16"), (1, 4096, 4096, "bfloat16"), (16, 4096, 4096, "bfloat16"),
    (1024, 1024, 1024, "bfloat16"), (2048, 4096, 6144, "bfloat16"), (300, 520, 776, "float16"), (512, 512, 512, "int8"),
)  # fmt: skip

NEW_SHAPES = """
import json, sys, time
import pygpukit as gp

small = gp.ones((8, 8), dtype="float32")
gp.matmul(small, small)
sums = {"int8": "int32"}
pairs = [(gp.ones((m, k), dtype=d), gp.ones((n, k), dtype=d).T) for m, k, n, d in json.loads(sys.argv[1])]
gp.synchronize()
found = []
for a, b in pairs:
    begin = time.perf_counter()
    gp.matmul(a, b, out_dtype=sums.get(a.dtype.name))
    found.append((time.perf_counter() - begin) * 1e3)
    gp.synchronize()
print(json.dumps(found))
"""


def measure_calls(gp: Any, torch: Any, report: Any) -> None:
    """Host time of a small product; the first call of a shape in a new process; memory asked of the driver after it."""
    c = Contest(gp, torch, report)
    shapes = [(size(m) if m > 1 else 1, size(k), size(n), dtype) for m, k, n, dtype in HOST_SHAPES]
    with c.guard("mm_submit"):
        a, b, out = (c.normal((64, 64), "bfloat16") for _ in range(3))
        names = {"gp": gp, "torch": torch, "a": a, "b": b, "out": out}
        names |= {"ta": c.tensor(a), "tb": c.tensor(b), "tout": c.tensor(out.copy())}
        statements = [
            "gp.matmul(a, b)",
            "torch.matmul(ta, tb)",
            "gp.matmul(a, b, out=out)",
            "torch.matmul(ta, tb, out=tout)",
        ]
        waits = [gp.synchronize, c.peer.synchronize] * 2
        calls = [(text, names, wait) for text, wait in zip(statements, waits, strict=True)]
        us = submit_times_us(calls, lambda count: 0.0)
        report.add("mm_submit_64_bf16_vs_torch", us[0] / us[1], ours_us=us[0], torch_us=us[1])
        report.add("mm_submit_64_bf16_out_vs_torch", us[2] / us[3], ours_us=us[2], torch_us=us[3])
    with c.guard("mm_new_shape"):
        command = [sys.executable, "-c", NEW_SHAPES, json.dumps(shapes)]
        runs = [
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
            for _ in range(4)
        ]  # the first fills the cache of kernels
        times = {
            f"{m}x{k}x{n} {dtype}": statistics.median(run[i] for run in runs[1:])
            for i, (m, k, n, dtype) in enumerate(HOST_SHAPES)
        }
        report.add("mm_new_shape_ms", max(times.values()), times_ms=times)
    with c.guard("mm_driver_allocations"):
        pairs = [
            (c.codes((m, k)), c.codes((n, k)).T)
            if dtype == "int8"
            else (c.normal((m, k), dtype), c.normal((n, k), dtype).T)
            for m, k, n, dtype in shapes
        ]
        gp.synchronize()
        gp.default_device().trim()
        asked = 0
        for left, right in pairs:
            multiply = functools.partial(gp.matmul, left, right, out_dtype="int32" if left.dtype == gp.int8 else None)
            multiply()
            before = gp.default_device().memory_stats()["driver_allocations"]
            for _ in range(50):
                multiply()
            gp.synchronize()
            asked += gp.default_device().memory_stats()["driver_allocations"] - before
        report.add("mm_driver_allocations", asked, calls=50 * len(pairs))


GROUPS = {
    "mm_square": measure_square, "mm_llm": measure_llm, "mm_fp8": measure_fp8, "mm_int8": measure_int8,
    "mm_gemv": measure_gemv.measure, "mm_fused": measure_fused, "mm_grouped": measure_grouped,
    "mm_calls": measure_calls, "mm_invariant": measure_invariant.measure,
    "mm_lt": measure_vendor.measure,
}  # fmt: skip
