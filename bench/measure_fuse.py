"""The figures of fused functions and of kernels from expressions, `fuse_*`: a chain of ten steps against a copy and
against its calls one by one, ElementwiseKernel and ReductionKernel against CuPy's. See measure.py.
"""

from __future__ import annotations

import functools
from typing import Any

from contest import CLOSE_S, Call, Contest, size
from measure_nn import copier

ELEMENTS = 1 << 26


def ten_steps(gp: Any) -> Any:
    """x and a bias: ten operations, one of them transcendental."""

    def chain(x: Any, bias: Any) -> Any:
        y = x + bias
        cube = y * y * y
        inner = gp.tanh(0.7978845608 * (y + 0.044715 * cube))
        return gp.maximum(0.5 * y * (1 + inner), -1.0)

    return chain


def arrays_of(c: Contest, dtype: str, items: int) -> tuple[list[tuple[Any, Any, Any]], int]:
    """(x, bias, out) in as many copies as the L2 does not hold, and the bytes that a pass over one moves."""
    width = 1024
    rows = max(1, size(ELEMENTS) // width)
    nbytes = 2 * items * rows * width
    return [
        (c.normal((rows, width), dtype), c.normal((width,), dtype), c.gp.empty((rows, width), dtype=dtype))
        for _ in range(c.copies(nbytes))
    ], nbytes


def measure_chain(gp: Any, torch: Any, report: Any) -> None:
    c = Contest(gp, torch, report)
    for dtype, short, items in (("float32", "f32", 4), ("bfloat16", "bf16", 2)):
        name = f"fuse_chain10_{short}"
        with c.guard(name):
            arrays, nbytes = arrays_of(c, dtype, items)
            chain = ten_steps(gp)
            fused = gp.fuse(chain)
            x, bias, out = arrays[0]
            wrong = gp.not_equal(fused(x, bias, out=out), chain(x, bias))
            if bool(gp.any(wrong).item()):
                raise AssertionError("the fused chain has other bits")
            calls: list[Call] = [functools.partial(fused, x, bias, out=out) for x, bias, out in arrays]
            us = c.race({"ours": lambda: c.ours(calls), "copy": lambda: copier(c, nbytes)}, CLOSE_S)
            details = {"us": us["ours"], "copy_us": us["copy"], "bytes": nbytes, "turn_s": c.turn_s}
            report.add(f"{name}_vs_copy", us["copy"] / us["ours"], **details)


def measure_expressions(gp: Any, torch: Any, report: Any) -> None:
    """CuPy's kernels from the same text, on the same memory."""
    import cupy

    c = Contest(gp, torch, report)
    text = ("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference")
    norm = ("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    arrays, nbytes = arrays_of(c, "float32", 4)

    def race(name: str, ours: list[Call], theirs: list[Call]) -> None:
        from pygpukit.benchmark.peers import find_peers

        peer: Any = next(peer for peer in find_peers()[0] if peer.name == "cupy")
        us = c.race({"ours": lambda: c.ours(ours), "cupy": lambda: [peer.timer(theirs)]}, CLOSE_S)
        report.add(name, us["cupy"] / us["ours"], us=us["ours"], cupy_us=us["cupy"], bytes=nbytes, turn_s=c.turn_s)

    views = [tuple(cupy.from_dlpack(a) for a in group) for group in arrays]
    with c.guard("fuse_elementwise_kernel_vs_cupy"):
        mine, other = gp.ElementwiseKernel(*text), cupy.ElementwiseKernel(*text)
        race(
            "fuse_elementwise_kernel_vs_cupy",
            [functools.partial(mine, x, bias, out) for x, bias, out in arrays],
            [functools.partial(other, x, bias, out) for x, bias, out in views],
        )
    for axis, label in ((1, "rows"), (0, "columns"), (None, "all")):
        name = f"fuse_reduction_kernel_{label}_vs_cupy"
        with c.guard(name):
            mine, other = gp.ReductionKernel(*norm), cupy.ReductionKernel(*norm)
            outs = [gp.empty(mine(x, axis=axis).shape, dtype="float32") for x, _, _ in arrays]
            race(
                name,
                [functools.partial(mine, x, out, axis=axis) for (x, _, _), out in zip(arrays, outs, strict=True)],
                [
                    functools.partial(other, x, cupy.from_dlpack(out), axis=axis)
                    for (x, _, _), out in zip(views, outs, strict=True)
                ],
            )


GROUPS = {"fuse_chain": measure_chain, "fuse_expressions": measure_expressions}
