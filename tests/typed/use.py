"""Calls as users write them, read by mypy only. A wrong one must be found: an unused `type: ignore` is an error."""

import numpy as np

import pygpukit as gp
from pygpukit import memory, runtime, scheduler
from pygpukit.typing import AxisLike, DeviceLike, DTypeLike, ShapeLike


def arrays(shape: ShapeLike, dtype: DTypeLike, axis: AxisLike, device: DeviceLike) -> gp.GPUArray:
    x = gp.zeros(shape, dtype, device)
    y = gp.ones((2, 3), dtype=np.float32, device="cpu") + 1.5
    total = gp.sum(x, axis=axis, dtype=float, out=y)
    total += y[0, ..., None] * np.float32(2)
    y[1:] = 3
    return gp.concat([x, y.reshape(3, 2), y.reshape((3, 2))], axis=None).sum(axis=(0, 1))


def wrong(x: gp.GPUArray) -> None:
    gp.zeros("2, 3")  # type: ignore[arg-type]
    gp.zeros(2.5)  # type: ignore[arg-type]
    gp.zeros(2, dtype=4)  # type: ignore[arg-type]
    gp.zeros(2, device=0)  # type: ignore[arg-type]
    gp.sum(x, axis="rows")  # type: ignore[arg-type]
    gp.sum(x, out=np.ones(3))  # type: ignore[arg-type]
    gp.argmax(x, axis=(0, 1))  # type: ignore[arg-type]
    gp.add(x, "1")  # type: ignore[arg-type]
    x.astype(None)  # type: ignore[arg-type]
    x["row"]  # type: ignore[index]


def old_names(x: gp.GPUArray) -> tuple[gp.GPUArray, bool]:
    from pygpukit.ops.tensor import transpose_3d_021

    return gp.ops.cast_f32_to_bf16(transpose_3d_021(x)), gp.compat.fp8_available()


def pools() -> int:
    pool = memory.MemoryPool(1 << 20)
    block: memory.MemoryBlock = pool.allocate(256)
    low = runtime.MemoryPool(1 << 20, device="cpu")
    number: int = low.allocate(256)
    runtime.MemoryPool("16MB")
    runtime.MemoryPool(1.5)  # type: ignore[arg-type]
    return low.stats().used + number + block.size


def contexts() -> bool:
    context = scheduler.create_context("one", max_vram=scheduler.MB)
    state: str = context.stats.state
    with scheduler.context_session(context) as entered:
        entered.destroy()
    tasks = scheduler.Scheduler(total_memory=1 << 30)
    tasks.submit(lambda: 3, memory=1, policy="burstable")
    tasks.submit(3)  # type: ignore[arg-type]
    controller = runtime.AdmissionController
    return state == controller.__name__
