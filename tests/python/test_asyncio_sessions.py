"""Sessions and futures under asyncio: tasks do not mix, cancellation leaves properly, threads carry the session."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

import pygpukit as gp
from pygpukit import runtime
from pygpukit.scheduler import execution
from pygpukit.scheduler.execution import (
    MB,
    AsyncKernelRequest,
    context_session,
    create_context,
    get_context_usage,
)

pytestmark = pytest.mark.usefixtures("fresh_contexts")


def test_two_interleaved_tasks_never_mix():
    a, b = create_context("a", max_vram=8 * MB), create_context("b", max_vram=8 * MB)
    streams: dict[str, set[int]] = {"a": set(), "b": set()}

    async def model(ctx, value):
        async with context_session(ctx) as entered:
            assert entered is ctx
            x = gp.zeros((64,))
            for _ in range(100):
                x = x + value
                streams[ctx.llm_id].add(gp.current_stream().handle)
                await asyncio.sleep(0)
            return x.sum().item()

    async def main():
        return await asyncio.gather(model(a, 1.0), model(b, 2.0))

    assert asyncio.run(main()) == [6400.0, 12800.0]
    assert len(streams["a"]) == len(streams["b"]) == 1
    assert streams["a"] != streams["b"]
    assert get_context_usage("a")["launches"] >= 100
    assert not a.is_session_active() and not b.is_session_active()


def test_a_task_cancelled_inside_leaves_its_session():
    ctx = create_context("a")
    outside = gp.current_stream()

    async def forever():
        async with context_session(ctx):
            await asyncio.sleep(1000)

    async def main():
        task = asyncio.create_task(forever())
        await asyncio.sleep(0.01)
        assert ctx.is_session_active()
        with pytest.raises(RuntimeError, match="session entered"):
            ctx.destroy()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not ctx.is_session_active()
        assert gp.current_stream() == outside

    asyncio.run(main())
    assert ctx.destroy()


def test_an_exception_inside_leaves_the_session():
    ctx = create_context("a")

    async def main():
        with pytest.raises(KeyError):
            async with context_session(ctx):
                raise KeyError("x")

    asyncio.run(main())
    assert not ctx.is_session_active()


def test_to_thread_carries_the_session():
    ctx = create_context("a", max_vram=2 * MB)

    def work():
        with pytest.raises(MemoryError):
            gp.zeros((4 * MB,), dtype="uint8")
        return gp.current_stream().handle, threading.get_ident()

    async def main():
        async with context_session(ctx):
            inside = gp.current_stream().handle
            handle, thread = await asyncio.to_thread(work)
            assert handle == inside
            assert thread != threading.get_ident()

    asyncio.run(main())


def test_a_child_task_that_outlives_the_context_is_refused():
    ctx = create_context("a")

    async def main():
        left = asyncio.Event()

        async def child():
            await left.wait()
            with pytest.raises(RuntimeError, match="was deleted"):
                gp.ones((4,)) + 1

        async with context_session(ctx):
            task = asyncio.create_task(child())
            await asyncio.sleep(0)
        ctx.destroy()
        left.set()
        await task

    asyncio.run(main())


def test_partition_sessions_too():
    m = runtime.PartitionManager(device="cpu")
    m.create_partition("p", "P", runtime.PartitionLimits().memory(2 * MB))

    async def main():
        async with m.session("p") as partition:
            assert partition.id == "p"
            await asyncio.sleep(0)
            with pytest.raises(MemoryError):
                gp.zeros((4 * MB,), dtype="uint8")

    asyncio.run(main())
    m.clear()


def test_await_gives_the_result():
    ctx = create_context("a")

    async def main():
        results = await asyncio.gather(
            *(ctx.dispatch_async(AsyncKernelRequest(lambda: gp.ones((1000,)))) for _ in range(20))
        )
        assert all(r.success for r in results)
        over = ctx.dispatch_async(AsyncKernelRequest(lambda: b"x"))
        over.wait()
        assert (await over).output == b"x"

    asyncio.run(main())


def test_the_loop_runs_on_while_a_future_is_awaited():
    ctx = create_context("a")
    future = ctx.dispatch_async(AsyncKernelRequest(1))

    async def main():
        ticks = 0
        waiting = asyncio.ensure_future(asyncio.wait_for(_result(future), 30))
        while not waiting.done():
            ticks += 1
            if ticks == 5:
                execution._controller.mark_future_completed("a", future.id, 1.5)
            await asyncio.sleep(0.005)
        assert (await waiting).exec_time == 1.5
        assert ticks >= 5

    asyncio.run(main())


async def _result(future):
    return await future


def test_dispatch_on_the_cpu_does_not_hold_the_loop():
    ctx = create_context("a")
    go, order, streams = threading.Event(), [], []

    def body(name):
        assert go.wait(20), "the loop was held"
        order.append(name)
        streams.append(gp.current_stream().handle)
        return name.encode()

    async def main():
        futures = [ctx.dispatch_async(AsyncKernelRequest(body).with_args([str(i)])) for i in range(4)]
        await asyncio.sleep(0)
        assert not any(future.is_ready() for future in futures)
        go.set()
        results = await asyncio.gather(*futures)
        assert [result.output for result in results] == [b"0", b"1", b"2", b"3"]
        async with context_session(ctx):
            streams.append(gp.current_stream().handle)

    asyncio.run(main())
    assert order == ["0", "1", "2", "3"] and len(set(streams)) == 1


def test_a_session_comes_after_what_was_dispatched_beside_the_loop():
    ctx = create_context("a")
    x = gp.zeros((4,))
    started = threading.Event()

    def body():
        started.set()
        threading.Event().wait(0.05)
        gp.add(x, 1, out=x)

    async def main():
        future = ctx.dispatch_async(AsyncKernelRequest(body))
        async with context_session(ctx):
            gp.multiply(x, 10, out=x)
        assert started.is_set() and (await future).success
        failing = ctx.dispatch_async(AsyncKernelRequest(lambda: 1 / 0))
        assert "ZeroDivisionError" in (await failing).error
        last = ctx.dispatch_async(AsyncKernelRequest(body))
        assert ctx.destroy() and last.is_ready(), "destroying waits"

    asyncio.run(main())
    assert x.tolist() == [11.0] * 4


def test_a_dispatch_beside_the_loop_can_be_cancelled_before_it_runs():
    ctx = create_context("a")
    go, ran = threading.Event(), []

    async def main():
        first = ctx.dispatch_async(AsyncKernelRequest(lambda: go.wait(20)))
        second = ctx.dispatch_async(AsyncKernelRequest(lambda: ran.append(1)))
        assert second.cancel()
        go.set()
        assert (await first).success
        third = ctx.dispatch_async(AsyncKernelRequest(lambda: ran.append(3)))
        assert (await third).success

    asyncio.run(main())
    assert ran == [3]


def test_cancelling_the_await_leaves_the_kernel_alone():
    ctx = create_context("a")
    future = ctx.dispatch_async(AsyncKernelRequest(1))

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_result(future), 0.01)
        assert future.state == "PENDING"
        execution._controller.mark_future_completed("a", future.id, 1.0)
        assert (await future).success

    asyncio.run(main())


def test_cancelled_future_gives_a_result():
    ctx = create_context("a")
    future = ctx.dispatch_async(AsyncKernelRequest(1))
    assert future.cancel()

    async def main():
        return await future

    assert not asyncio.run(main()).success


def test_the_interpreter_ends_with_futures_in_flight():
    code = """
import asyncio
import pygpukit as gp
from pygpukit.scheduler.execution import AsyncKernelRequest, create_context

ctx = create_context("a")
pending = ctx.dispatch_async(AsyncKernelRequest(1))

async def wrap():
    return await pending

async def main():
    try:
        await asyncio.wait_for(wrap(), 0.01)
    except asyncio.TimeoutError:
        pass

asyncio.run(main())
ctx.start_session()
done = ctx.dispatch_async(AsyncKernelRequest(lambda: gp.ones((4,))))
done._future.add_done_callback(lambda f: None)
print("end")
"""
    env = {**os.environ, "PYGPUKIT_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "end"
    assert done.stderr == ""


def run_script(code, timeout=60):
    env = {**os.environ, "PYGPUKIT_DEVICE": "cpu"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env=env)


def test_awaits_work_again_after_their_thread_could_not_start():
    done = run_script(
        """
import asyncio, threading
from pygpukit.scheduler.execution import AsyncKernelRequest, create_context

ctx = create_context("a")
start = threading.Thread.start

def refuse(self):
    raise RuntimeError("can't start new thread")

async def main():
    future = ctx.dispatch_async(AsyncKernelRequest(lambda: None))
    threading.Thread.start = refuse
    try:
        await future
    except RuntimeError as error:
        print(error)
    threading.Thread.start = start
    print((await asyncio.wait_for(future, 20)).success)

asyncio.run(main())
"""
    )
    assert (done.returncode, done.stdout) == (0, "can't start new thread\nTrue\n"), done.stderr


def test_a_slow_callback_delays_no_await():
    ctx = create_context("a")
    called, go = threading.Event(), threading.Event()

    def slow(_future):
        called.set()
        go.wait(30)

    first = ctx.dispatch_async(AsyncKernelRequest(lambda: None))
    first._future.add_done_callback(slow)
    assert called.wait(30)

    async def main():
        return await asyncio.wait_for(ctx.dispatch_async(AsyncKernelRequest(lambda: None)), 2)

    try:
        assert asyncio.run(main()).success
    finally:
        go.set()
