"""Execution contexts: walls, sessions, tracked buffers, futures."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _core, runtime
from pygpukit.scheduler import execution
from pygpukit.scheduler.execution import (
    GB,
    KB,
    MB,
    AsyncKernelRequest,
    context_session,
    create_context,
    destroy_context,
    get_available_vram,
    get_context,
    get_context_usage,
    initialize,
    is_session_active,
    list_contexts,
    reset,
    session,
    stats,
)

pytestmark = pytest.mark.usefixtures("fresh_contexts")


def test_constants():
    assert (KB, MB, GB) == (1024, 1024**2, 1024**3)
    assert execution.HAS_MULTI_LLM


def test_initialize_defaults():
    assert not stats().initialized
    initialize()
    s = stats()
    assert s.initialized
    assert s.device_total_memory == s.total_vram_budget == s.available_vram == 8 * GB
    assert (s.device_id, s.context_count, s.stream_pool_size, s.used_vram) == (0, 0, 8, 0)
    reset()
    initialize(device_total_memory=16 * GB, total_vram_budget=2 * GB)
    assert stats().total_vram_budget == 2 * GB
    assert get_available_vram() == 2 * GB


def test_contexts_by_name():
    ctx = create_context("gpt", max_vram=64 * MB)
    assert (ctx.llm_id, ctx.stream_id, ctx.max_vram) == ("gpt", 0, 64 * MB)
    assert create_context("asr").stream_id == 1
    with pytest.raises(RuntimeError, match="'gpt' exists"):
        create_context("gpt")
    assert list_contexts() == ["gpt", "asr"]
    assert get_context("gpt").max_vram == 64 * MB
    assert get_context("none") is None
    assert ctx.stats.state == "IDLE"
    assert "gpt" in repr(ctx) and "gpt" in repr(ctx.stats)
    assert ctx.destroy() and not ctx.destroy()
    assert not destroy_context("none")
    with pytest.raises(ValueError, match="destroyed"):
        _ = ctx.stats


def test_eight_streams():
    for i in range(8):
        create_context(f"m{i}")
    with pytest.raises(RuntimeError, match="8 streams"):
        create_context("m8")


def test_session_flag():
    assert not is_session_active()
    with session():
        assert is_session_active()
        with session():
            assert is_session_active()
        assert is_session_active()
    assert not is_session_active()


def test_tracked_buffers():
    initialize(total_vram_budget=100 * MB)
    ctx = create_context("a", max_vram=10 * MB)
    assert ctx.track_allocation(1, 6 * MB)
    assert not ctx.track_allocation(2, 6 * MB)
    assert (ctx.stats.used_vram, ctx.stats.available_vram, ctx.stats.buffer_count) == (6 * MB, 4 * MB, 1)
    assert get_available_vram() == 94 * MB
    with pytest.raises(ValueError, match="which is tracked"):
        ctx.track_allocation(1, 1)
    ctx.track_deallocation(1)
    assert ctx.stats.used_vram == 0
    with pytest.raises(ValueError, match="tracked"):
        ctx.track_deallocation(1)
    other = create_context("b")
    assert other.track_allocation(1, 100 * MB)  # the budget is its limit
    assert not ctx.track_allocation(1, 1)
    other.destroy()
    assert ctx.track_allocation(1, 1)


def test_arrays_inside_are_charged_and_walled():
    ctx = create_context("a", max_vram=8 * MB)
    with context_session(ctx) as entered:
        assert entered is ctx
        assert ctx.is_session_active()
        assert ctx.stats.state == "RUNNING"
        x = gp.zeros((4 * MB,), dtype="uint8")
        with pytest.raises(MemoryError):
            gp.zeros((6 * MB,), dtype="uint8")
    assert not ctx.is_session_active()
    assert ctx.stats.used_vram >= 4 * MB
    usage = get_context_usage("a")
    assert usage["peak_vram"] >= 4 * MB and usage["launches"] >= 1 and usage["qos"] == "Burstable"
    gp.zeros((6 * MB,), dtype="uint8")
    del x
    assert ctx.stats.used_vram == 0


def test_guarantee_keeps_memory_from_others():
    initialize(total_vram_budget=32 * MB)
    greedy = create_context("greedy")
    sure = create_context("sure", max_vram=24 * MB, base_vram=24 * MB)
    assert get_context_usage("sure")["qos"] == "Guaranteed"
    assert get_context_usage("greedy")["qos"] == "BestEffort"
    with context_session(greedy), pytest.raises(MemoryError):
        gp.zeros((16 * MB,), dtype="uint8")
    with context_session(sure):
        x = gp.zeros((20 * MB,), dtype="uint8")
    assert x.size == 20 * MB
    with pytest.raises(RuntimeError, match="left to keep"):
        create_context("more", base_vram=16 * MB)


def test_every_base_is_kept():
    initialize(total_vram_budget=64 * MB)
    a = create_context("a", max_vram=64 * MB, base_vram=32 * MB)
    b = create_context("b", max_vram=64 * MB, base_vram=32 * MB)
    with context_session(a):
        kept = [gp.zeros((4 * MB,), dtype="uint8") for _ in range(8)]
        with pytest.raises(MemoryError):
            gp.zeros((4 * MB,), dtype="uint8")
    assert b.stats.available_vram == 32 * MB and a.stats.available_vram == 0
    with context_session(b):
        kept += [gp.zeros((4 * MB,), dtype="uint8") for _ in range(8)]
    assert stats().used_vram == 64 * MB


def test_best_effort_gives_way_and_keeps_its_data():
    initialize(total_vram_budget=64 * MB)
    hog = create_context("hog", qos="best_effort")
    with context_session(hog):
        held = [gp.full((4 * MB,), i, dtype="uint8") for i in range(15)]
    sure = create_context("sure", max_vram=32 * MB, qos="guaranteed")
    assert sure.stats.available_vram == 32 * MB
    assert hog.stats.used_vram == 32 * MB
    with context_session(sure):
        x = gp.full((16 * MB,), 77, dtype="uint8")
    with context_session(hog), pytest.raises(MemoryError):
        held[0] + held[0]  # moved out, and the room is not there
    assert float(x.to_numpy().min()) == 77
    destroy_context("sure")
    del x
    with context_session(hog):
        for i, array in enumerate(held):
            assert np.all(array.to_numpy() == i)

    plain = create_context("plain")
    del held
    with context_session(plain):
        held = [gp.zeros((4 * MB,), dtype="uint8") for _ in range(15)]
    with pytest.raises(RuntimeError, match="cannot be moved to host memory"):
        create_context("sure", max_vram=32 * MB, qos="guaranteed")
    assert list_contexts() == ["hog", "plain"] and len(held) == 15


def test_qos_words():
    create_context("a", max_vram=MB, qos="guaranteed")
    assert get_context_usage("a")["base_vram"] == MB
    create_context("b", max_vram=2 * MB, base_vram=MB, qos="Burstable")
    create_context("c", qos="best_effort")
    create_context("d", max_vram=MB, qos=runtime.QosClass.Guaranteed)
    with pytest.raises(ValueError, match="qos must be"):
        create_context("e", qos="gold")
    with pytest.raises(ValueError, match="qos must be Burstable"):
        create_context("e", max_vram=2 * MB, base_vram=MB, qos="guaranteed")
    with pytest.raises(ValueError, match="base_vram must be at most max_vram"):
        create_context("e", max_vram=MB, base_vram=2 * MB)
    with pytest.raises(ValueError, match="compute must be"):
        create_context("e", compute=1.5)


def test_compute_share():
    _core._set_host_sms(64)
    try:
        create_context("a", compute=0.25)
        assert get_context_usage("a")["partition"].sm_count == 16
        destroy_context("a")
    finally:
        _core._set_host_sms(0)


def test_shares_of_contexts_and_partitions_add_up():
    _core._set_host_sms(132)
    try:
        create_context("a", compute=0.9)
        with pytest.raises(RuntimeError, match="asks for a compute share of 0.9 and 0.1 is left"):
            create_context("b", compute=0.9)
        assert list_contexts() == ["a"]
        manager = runtime.PartitionManager(device="cpu")
        with pytest.raises(RuntimeError, match="compute share"):
            manager.create_partition("p", "P", runtime.PartitionLimits().compute(0.5))
        loose = runtime.PartitionManager(runtime.PartitionConfig(allow_overcommit=True), "cpu")
        loose.create_partition("p", "P", runtime.PartitionLimits().compute(0.5))
        loose.clear()
        destroy_context("a")
        create_context("b", compute=0.9)
        reset()
    finally:
        _core._set_host_sms(0)


def test_a_share_does_not_limit_streams_and_graphs():
    ctx = create_context("a", compute=0.5)
    with context_session(ctx):
        kept = [gp.CudaGraph() for _ in range(20)]
        kept += [gp.Stream() for _ in range(20)]
    assert len(kept) == 40


def test_a_graph_goes_with_its_context():
    ctx = create_context("a")
    with context_session(ctx):
        x = gp.zeros((4,))
        graph = gp.CudaGraph()
        with graph.capture():
            gp.add(x, 1.0, out=x)
        graph.replay()
    with pytest.raises(RuntimeError, match="another session"):
        graph.replay()
    destroy_context("a")
    del ctx
    with pytest.raises(RuntimeError, match="another session"):
        graph.replay()
    assert x.to_numpy().tolist() == [1, 1, 1, 1]


def test_destroying_inside_its_own_session_is_refused():
    ctx = create_context("a", max_vram=8 * MB)
    with context_session(ctx):
        x = gp.ones((16,))
        with pytest.raises(RuntimeError, match="context 'a' has 1 session entered"):
            ctx.destroy()
        with pytest.raises(RuntimeError, match="session entered"):
            reset()
        y = x + 1  # nothing was lost
    assert y.sum().item() == 32.0
    assert ctx.destroy()


def test_sessions_nest_and_order_data():
    a, b = create_context("a"), create_context("b")
    x = gp.zeros((1000,))
    with context_session(a):
        x = x + 1
        with context_session(b):
            x = x * 3
        x = x + 2
    np.testing.assert_array_equal((x - 1).to_numpy(), np.full(1000, 4.0))


def test_start_and_end_by_hand():
    ctx = create_context("a", max_vram=2 * MB)
    ctx.start_session()
    with pytest.raises(MemoryError):
        gp.zeros((4 * MB,), dtype="uint8")
    ctx.end_session()
    gp.zeros((4 * MB,), dtype="uint8")
    with pytest.raises(RuntimeError, match="out of order"):
        ctx.end_session()
    assert not ctx.is_session_active()


def test_threads_have_their_own_sessions():
    a, b = create_context("a", max_vram=4 * MB), create_context("b", max_vram=4 * MB)
    barrier = threading.Barrier(2)
    errors = []

    def work(ctx, value):
        try:
            with gp.device("cpu"), context_session(ctx):
                for _ in range(50):
                    barrier.wait()
                    stream = gp.current_stream()
                    x = gp.full((100,), value) + 1
                    barrier.wait()
                    assert gp.current_stream() == stream
                    assert x.sum().item() == 100 * (value + 1)
        except Exception as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=pair) for pair in ((a, 1.0), (b, 5.0))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert get_context_usage("a")["launches"] > 50 and get_context_usage("b")["launches"] > 50


# Requests and futures


def test_requests():
    r = AsyncKernelRequest(7)
    assert (r.kernel_handle, r.grid, r.block, r.shared_mem) == (7, (1, 1, 1), (256, 1, 1), 0)
    s = r.with_grid(2, 3).with_block(64).with_shared_mem(128).with_args([1, 2])
    assert (s.grid, s.block, s.shared_mem, s.args) == ((2, 3, 1), (64, 1, 1), 128, (1, 2))
    assert r.grid == (1, 1, 1)
    assert AsyncKernelRequest.linear(7, 1000).grid == (4, 1, 1)
    assert AsyncKernelRequest.linear(7, 1000, block_size=100).grid == (10, 1, 1)
    assert "kernel_handle=7" in repr(r)
    with pytest.raises(ValueError, match="with_grid"):
        r.with_grid(0)
    with pytest.raises(ValueError, match="kernel_handle"):
        AsyncKernelRequest("name")


def test_future_of_a_callable():
    ctx = create_context("a", max_vram=8 * MB)
    results = []

    def body(n):
        assert ctx.is_session_active()
        results.append(gp.ones((n,)) + 1)
        return b"done"

    future = ctx.dispatch_async(AsyncKernelRequest(body).with_args([5]))
    result = future.wait(timeout=10)
    assert result.success and result.error is None and result.output == b"done"
    assert result.exec_time >= 0 and future.exec_time() == result.exec_time
    assert future.is_ready() and future.state == "COMPLETED"
    assert (future.id, future.stream_id, future.context_id) == (1, 0, "a")
    assert future.try_get().success
    assert not future.cancel()
    assert results[0].sum().item() == 10.0
    assert "KernelResult" in repr(result) and "KernelFuture" in repr(future)
    assert not ctx.is_session_active()


def test_future_of_a_callable_that_raises():
    ctx = create_context("a")

    def body():
        raise KeyError("lost")

    result = ctx.dispatch_async(AsyncKernelRequest(body)).wait(timeout=10)
    assert not result.success
    assert "KeyError: 'lost'" in result.error
    assert not ctx.is_session_active()

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ctx.dispatch_async(AsyncKernelRequest(stop))
    assert not ctx.is_session_active()


def test_kernels_need_a_gpu_and_say_so():
    ctx = create_context("a")
    kernel = gp.jit('extern "C" __global__ void f(float* x) { x[0] = 1; }', func="f")
    result = ctx.dispatch_async(AsyncKernelRequest(kernel).with_args([gp.zeros((4,))])).wait(timeout=10)
    assert not result.success
    assert result.error


def test_futures_by_marks():
    controller = runtime.MultiLLMController()
    controller.initialize(device_total_memory=GB)
    assert controller.create_context("a", max_vram=MB) == 0
    one = controller.dispatch_async("a", runtime.AsyncKernelRequest(0xDEAD))
    two = controller.dispatch_async("a", runtime.AsyncKernelRequest(0xBEEF))
    assert (one.id, two.id) == (1, 2)
    assert one.state == runtime.FutureState.Pending
    assert int(one.state) == 0
    assert controller.get_pending_futures("a") == [1, 2]
    controller.mark_future_launched("a", 1)
    assert controller.get_future("a", 1).state == runtime.FutureState.Running
    assert one.try_get() is None
    with pytest.raises(TimeoutError):
        one.wait(timeout=0.01)
    controller.mark_future_completed("a", 1, 0.25)
    assert one.wait().exec_time == 0.25
    assert controller.cancel_future("a", 2)
    assert not controller.cancel_future("a", 2)
    assert not two.wait().success
    three = controller.dispatch_async("a", runtime.AsyncKernelRequest(1))
    controller.mark_future_failed("a", three.id, "bad grid")
    assert three.wait().error == "bad grid"
    s = controller.async_stats("a")
    assert (s.total_dispatched, s.pending_count, s.completed_count, s.failed_count, s.cancelled_count) == (
        3,
        0,
        1,
        1,
        1,
    )
    assert s.avg_exec_time == 0.25
    assert controller.get_future("a", 99) is None
    with pytest.raises(ValueError, match="llm_id"):
        controller.async_stats("b")
    assert controller.get_context("a").state == runtime.ContextState.Idle
    assert int(runtime.ContextState.Paused) == 2
    controller.reset()
    assert not controller.is_initialized()


def test_wait_gives_the_gil_away():
    ctx = create_context("a")
    future = ctx.dispatch_async(AsyncKernelRequest(1))
    threading.Timer(0.05, lambda: execution._controller.mark_future_completed("a", future.id, 1.0)).start()
    assert future.wait(timeout=10).success


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_wait_lets_signals_through():
    ctx = create_context("a")
    future = ctx.dispatch_async(AsyncKernelRequest(1))

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            future.wait(timeout=30)
        assert time.monotonic() - began < 10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not future.is_ready()


def test_done_callback():
    ctx = create_context("a")
    called = threading.Event()
    future = ctx.dispatch_async(AsyncKernelRequest(lambda: gp.ones((3,))))
    future._future.add_done_callback(lambda f: called.set())
    assert called.wait(10)


def test_a_dispatch_leaves_its_session_whatever_the_callable_does():
    ctx = create_context("a")

    class Mute(Exception):
        def __str__(self):
            raise ValueError("no text")

    def mute():
        raise Mute

    result = ctx.dispatch_async(AsyncKernelRequest(mute)).wait(5)
    assert not result.success and "Mute" in result.error

    def surrogate():
        raise ValueError("\ud800")

    assert "ValueError" in ctx.dispatch_async(AsyncKernelRequest(surrogate)).wait(5).error

    other = create_context("b")

    def stays_inside():
        ctx.start_session()
        other.start_session()
        gp.Stream().__enter__()

    assert ctx.dispatch_async(AsyncKernelRequest(stays_inside)).wait(5).success
    assert not ctx.is_session_active() and not other.is_session_active()
    for context in (ctx, other):
        with pytest.raises(RuntimeError, match="left out of order"):
            context.end_session()

    def fails_inside():
        ctx.start_session()
        raise KeyboardInterrupt

    with context_session(other):
        with pytest.raises(KeyboardInterrupt):
            ctx.dispatch_async(AsyncKernelRequest(fails_inside))
        assert other.is_session_active() and not ctx.is_session_active()
    assert execution._controller.async_stats("a").running_count == 0
    assert destroy_context("a") and destroy_context("b")


def test_futures_end_with_their_context():
    ctx = create_context("a")
    waiting = ctx.dispatch_async(AsyncKernelRequest(7))
    launched = ctx.dispatch_async(AsyncKernelRequest(7))
    execution._controller.mark_future_launched("a", launched.id)
    assert destroy_context("a")
    assert waiting.state == "CANCELLED" and launched.state == "FAILED"
    assert "context 'a' was destroyed" in launched.wait(5).error


def test_contexts_initialise_once():
    for _ in range(20):
        reset()
        failures, barrier = [], threading.Barrier(4)

        def make(name, failures=failures, barrier=barrier):
            barrier.wait()
            try:
                with gp.device("cpu"):
                    create_context(name)
            except Exception as error:
                failures.append(str(error))

        threads = [threading.Thread(target=make, args=(f"c{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_a_context_is_on_the_device_of_the_controller():
    for bad in (65536, -1, 99):
        with pytest.raises(RuntimeError, match="device index must be 0 to"):
            initialize(device_id=bad)
    assert not stats().initialized
    initialize()
    create_context("a", device_id=0)
    with pytest.raises(ValueError, match="device_id must be 0, the controller's device, got 5"):
        create_context("b", device_id=5)
