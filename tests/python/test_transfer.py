"""The transfer classes of pygpukit.runtime: queue by hand, page-locked accounts, and the device's own engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _core, runtime

KIB, MIB = 1024, 1024 * 1024
SIZES = [0, 1, 31, 1025, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 9 * MIB + 7]


def pattern(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


# Names


def test_which_names_are_on_top():
    transfer = runtime.transfer
    on_top = ["AsyncTransferEngine", "TransferOp", "TransferStats", "TransferFuture", "TransferEngine", "transfers"]
    for name in [*on_top, "PinnedPoolConfig", "PinnedMemoryManager", "PinnedBlock", "PinnedStats"]:
        assert getattr(runtime, name) is getattr(transfer, name)
    for name in ("TransferType", "TransferState", "StreamType"):
        assert hasattr(transfer, name)
        assert not hasattr(runtime, name)


def test_constants_are_class_attributes():
    kinds, states, streams = runtime.transfer.TransferType, runtime.transfer.TransferState, runtime.transfer.StreamType
    assert kinds.H2D == kinds.H2D != kinds.D2H
    assert isinstance(kinds.D2D, kinds)
    assert repr(kinds.H2D) == "TransferType.H2D"
    assert len({kinds.H2D, kinds.D2H, kinds.D2D, kinds.H2D}) == 3
    assert not states.Queued.is_terminal()
    assert not states.InProgress.is_terminal()
    assert states.Completed.is_terminal() and states.Failed.is_terminal() and states.Cancelled.is_terminal()
    assert [streams.Compute.to_id(), streams.MemcpyH2D.to_id(), streams.MemcpyD2H.to_id()] == [0, 1, 2]
    assert streams.Custom(7).to_id() == 7
    assert streams.Custom(7) == streams.Custom(7) != streams.Compute
    assert repr(streams.Custom(7)) == "StreamType.Custom(7)"
    assert repr(streams.MemcpyH2D) == "StreamType.MemcpyH2D"
    with pytest.raises(ValueError):
        streams.Custom(-1)


# AsyncTransferEngine


def test_queue_order_limit_and_states():
    kinds, states = runtime.transfer.TransferType, runtime.transfer.TransferState
    engine = runtime.AsyncTransferEngine(max_concurrent=2)
    d2d = engine.enqueue_d2d(1, 2, 30)
    d2h = engine.enqueue_d2h(3, 4, 20)
    low = engine.enqueue_h2d(5, 6, 10)
    high = engine.enqueue_with_priority("H2d", 7, 8, 40, 9)
    ready = engine.get_ready_transfers(10)
    assert [op.id for op in ready] == [high, low]
    op = ready[0]
    assert (op.transfer_type, op.src_ptr, op.dst_ptr, op.size, op.priority) == (kinds.H2D, 7, 8, 40, 9)
    assert op.state == states.InProgress and op.stream_id == 1
    assert op.started_at >= op.queued_at and op.completed_at is None and op.error is None and op.task_id is None
    assert op.wait_time() >= 0 and op.duration() is None and op.bandwidth_gbps() is None
    assert engine.get_ready_transfers(10) == []
    assert [o.id for o in engine.get_in_progress_for_stream(1)] == [low, high]
    assert engine.cancel_transfer(low) and not engine.cancel_transfer(low)
    assert [o.id for o in engine.get_ready_transfers(10)] == [d2h]
    assert engine.complete_transfer(high)
    assert engine.fail_transfer(d2h, "lost")
    assert engine.start_transfer(d2d) and not engine.start_transfer(d2d)
    assert engine.get_operation(d2h).error == "lost"
    assert engine.get_operation(high).state == states.Completed
    assert engine.get_operation(99) is None
    stats = engine.stats()
    assert (stats.total_queued, stats.completed_count, stats.failed_count) == (4, 1, 1)
    assert (stats.total_bytes, stats.h2d_bytes, stats.d2h_bytes) == (40, 40, 0)
    assert (stats.pending_count, stats.in_progress_count) == (0, 1)
    assert engine.has_pending_work()
    assert engine.gc() == 3
    engine.clear()
    assert not engine.has_pending_work()
    for value in (engine, op, stats):
        assert repr(value).startswith(type(value).__name__ + "(")
    with pytest.raises(ValueError, match="transfer_type must be 'h2d'"):
        engine.enqueue_with_priority("up", 1, 2, 3, 0)
    with pytest.raises(ValueError):
        runtime.AsyncTransferEngine(0)


def test_run_makes_the_copies(device):
    source, target = pattern(5000), np.zeros(5000, np.uint8)
    pointers = [_core._raw_allocate(device, 5000) for _ in range(2)]
    engine = runtime.AsyncTransferEngine(device=device)
    engine.enqueue_h2d(source.ctypes.data, pointers[0], 5000)
    assert engine.run() == 1
    engine.enqueue_d2d(pointers[0], pointers[1], 5000)
    assert engine.run() == 1
    last = engine.execute(engine.enqueue_d2h(pointers[1], target.ctypes.data, 5000))
    assert last.state == runtime.transfer.TransferState.Completed
    assert last.bandwidth_gbps() > 0
    np.testing.assert_array_equal(target, source)
    stats = engine.stats()
    assert (stats.completed_count, stats.h2d_bytes, stats.d2h_bytes, stats.total_bytes) == (3, 5000, 5000, 15000)
    for pointer in pointers:
        _core._raw_free(pointer)


def test_run_marks_what_cannot_be_copied(device):
    engine = runtime.AsyncTransferEngine(device=device)
    bad = engine.enqueue_h2d(0, 0, 8)
    assert engine.run() == 0
    assert "address" in engine.get_operation(bad).error
    with pytest.raises(ValueError, match="one that is Failed"):
        engine.execute(bad)
    with pytest.raises(ValueError):
        engine.execute(12345)


# PinnedMemoryManager


def test_cancel_while_run_copies():
    states = runtime.transfer.TransferState
    size = 192 * MIB
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    engine = runtime.AsyncTransferEngine(1, device="cpu")
    outcomes = []
    for attempt in range(20):  # on a busy machine a copy may end before it is cancelled
        wait = attempt % 2 == 0
        target[:] = 0
        number = engine.enqueue_h2d(source.ctypes.data, target.ctypes.data, size)
        waiting = engine.enqueue_h2d(source.ctypes.data, target.ctypes.data, 1)
        completed = []
        thread = threading.Thread(target=lambda done=completed: done.append(engine.run()))
        thread.start()
        while wait and target[0] == 0:
            pass
        assert engine.cancel_transfer(waiting)
        cancelled = engine.cancel_transfer(number)
        thread.join()
        whole = bool(target[::4096].all() and target[-1])
        assert whole is not cancelled
        assert engine.get_operation(number).state == (states.Cancelled if cancelled else states.Completed)
        assert engine.get_operation(waiting).state == states.Cancelled
        assert completed == [0 if cancelled else 1]
        assert not engine.cancel_transfer(number)
        outcomes.append(cancelled)
        if attempt > 0 and any(outcomes):
            break
    assert engine.stats().in_progress_count == 0
    assert any(outcomes)


def test_size_classes():
    config = runtime.PinnedPoolConfig()
    assert (config.max_size, config.enable_pooling, config.alignment) == (1024 * MIB, True, 256)
    classes = [4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
    for size in classes:
        assert config.get_size_class(size) == size
    assert config.get_size_class(1) == 4 * KIB
    assert config.get_size_class(256 * MIB + 1) == 256 * MIB + 256
    assert repr(config).startswith("PinnedPoolConfig(max_size=")


def test_pinned_accounts():
    manager = runtime.PinnedMemoryManager.with_max_size(72 * KIB)
    ident, size, reused = manager.allocate(100)
    assert (size, reused) == (4 * KIB, False)
    manager.register(ident, 0x1000, size)
    manager.associate_task(ident, "job")
    block = manager.get(ident)
    assert (block.id, block.host_ptr, block.size, block.in_use, block.task_id) == (ident, 0x1000, size, True, "job")
    assert block.last_access >= block.allocated_at
    assert manager.get_blocks_for_task("job") == [ident]
    assert manager.free_task_blocks("job") == [(False, 0x1000)]
    again, _, reused = manager.allocate(4000)
    assert reused and manager.get(again).host_ptr == 0x1000
    manager.touch(again)
    assert manager.can_allocate(64 * KIB) and not manager.can_allocate(65 * KIB)
    with pytest.raises(MemoryError, match="clear_pool"):
        manager.allocate(65 * KIB)
    with pytest.raises(ValueError):
        manager.free(99)
    assert manager.free(again) == (False, 0x1000)
    stats = manager.stats()
    assert (stats.total_allocations, stats.total_frees, stats.pool_hits, stats.pool_misses) == (2, 2, 1, 1)
    assert (stats.current_used, stats.peak_used, stats.pool_size, stats.pooled_blocks) == (0, 4 * KIB, 4 * KIB, 1)
    assert stats.total_allocated == 4 * KIB and stats.hit_rate() == 0.5
    assert manager.clear_pool() == [0x1000]
    assert manager.clear() == [] and manager.active_count() == 0
    no_pool = runtime.PinnedMemoryManager(runtime.PinnedPoolConfig(enable_pooling=False))
    ident, size, _ = no_pool.allocate(1)
    no_pool.register(ident, 7, size)
    assert no_pool.free(ident) == (True, 7)
    for value in (manager, block, stats):
        assert repr(value).startswith(type(value).__name__ + "(")


# The engine of a device


@pytest.mark.parametrize("size", SIZES)
def test_bytes_go_there_and_back(device, size):
    source = pattern(size)
    array = gp.zeros((size,), dtype=gp.uint8)
    future = runtime.copy_to_device_async(array, source)
    assert future.result(30) is array
    np.testing.assert_array_equal(array.to_numpy(), source)
    back = runtime.copy_to_host_async(array)
    np.testing.assert_array_equal(back.result(30), source)
    assert back.done() and not back.cancelled() and back.exception() is None
    assert back.state == runtime.transfer.TransferState.Completed
    assert back.operation.bytes_done == size
    assert repr(back).startswith("TransferFuture(id=")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "bool"])
def test_dtypes_and_shapes(device, dtype):
    array = gp.ones((3, 5), dtype=dtype)
    host = runtime.copy_to_host_async(array).result()
    assert host.shape == (3, 5)
    np.testing.assert_array_equal(host, array.to_numpy())
    other = gp.zeros((3, 5), dtype=dtype)
    runtime.copy_to_device_async(other, host).result()
    np.testing.assert_array_equal(other.to_numpy(), host)
    out = np.zeros_like(host)
    assert runtime.copy_to_host_async(array, out=out).result() is out
    np.testing.assert_array_equal(out, host)


def test_page_locked_memory_is_copied_directly(device):
    engine = runtime.transfers(device)
    engine.trim()
    source = runtime.pinned_empty((3, 700_001), gp.uint8, device)
    source[:] = pattern(2_100_003).reshape(3, -1)
    array = gp.zeros((3, 700_001), dtype=gp.uint8)
    runtime.copy_to_device_async(array, source)
    target = runtime.pinned_empty((3, 700_001), "uint8")
    runtime.copy_to_host_async(array, out=target).result(30)
    np.testing.assert_array_equal(target, source)
    assert engine.pinned_bytes == 0
    assert runtime.pinned_empty((0, 4), "bfloat16").shape == (0, 4)
    assert runtime.pinned_empty(5).dtype == np.float32


@pytest.mark.parametrize("size", SIZES)
def test_staged_copies_of_arrays(device, size):
    source = pattern(size)
    _core._set_staged_bytes(1)
    try:
        wanted = source.copy()
        array = gp.from_numpy(source)
        source[:] = 0  # it has been read
        np.testing.assert_array_equal(array.to_numpy(), wanted)
    finally:
        _core._set_staged_bytes(0)


def test_later_work_comes_after_the_copy(device):
    for i in range(20):
        array = gp.ones((100_000,), dtype="float32")
        array = array + 1
        out = runtime.copy_to_host_async(array, priority=i)
        array += 5
        fill = np.full(100_000, 10.0, np.float32)
        runtime.copy_to_device_async(array, fill)
        total = array * 2
        np.testing.assert_array_equal(out.result(), np.full(100_000, 2.0, np.float32))
        np.testing.assert_array_equal(total.to_numpy(), np.full(100_000, 20.0, np.float32))


def test_wrong_arguments(device):
    array = gp.zeros((4, 4), dtype="float32")
    with pytest.raises(ValueError, match=r"data must have shape \[4, 4\]"):
        runtime.copy_to_device_async(array, np.zeros((4, 5), np.float32))
    with pytest.raises(TypeError, match="data must have dtype float32"):
        runtime.copy_to_device_async(array, np.zeros((4, 4), np.int32))
    swapped = np.dtype(np.float32).newbyteorder("S")
    for call in (runtime.copy_to_device_async, runtime.copy_to_host_async):
        with pytest.raises(gp.errors.DTypeError, match=f"{call.__name__}: (data|out) must have native byte order, got"):
            call(array, np.zeros((4, 4), swapped))
    with pytest.raises(ValueError, match="C-contiguous"):
        runtime.copy_to_device_async(array, np.zeros((4, 4), np.float32).T[::1, :].T.T)
    with pytest.raises(ValueError, match="have 64 bytes"):
        runtime.copy_to_device_async(array, b"12")
    with pytest.raises(ValueError, match="contiguous"):
        runtime.copy_to_host_async(array.T)
    with pytest.raises(TypeError):
        runtime.copy_to_host_async(np.zeros(3))
    with pytest.raises((ValueError, BufferError)):
        runtime.copy_to_host_async(array, out=bytes(64))
    runtime.copy_to_device_async(array, bytes(range(64))).result()
    assert array.to_numpy().tobytes() == bytes(range(64))


def test_source_stays_alive_and_is_let_go(device):
    source = np.ones(3 * MIB, np.uint8)
    references = sys.getrefcount(source)
    array = gp.zeros((3 * MIB,), dtype=gp.uint8)
    future = runtime.copy_to_device_async(array, source)
    future.result()
    for _ in range(100):
        if sys.getrefcount(source) == references:
            break
        time.sleep(0.01)
        gp.zeros((1,))  # queued releases run at the next call
    assert sys.getrefcount(source) == references
    temporary = runtime.copy_to_device_async(array, np.full(3 * MIB, 7, np.uint8))
    temporary.result()
    assert int(array.to_numpy().sum(dtype=np.int64)) == 7 * 3 * MIB


def test_callbacks_and_cancel(device):
    called = threading.Event()
    seen = []
    array = gp.zeros((MIB,), dtype=gp.uint8)
    future = runtime.copy_to_device_async(array, pattern(MIB))
    future.add_done_callback(lambda f: (seen.append(f), called.set()))
    assert called.wait(10)
    assert seen == [future]
    assert not future.cancel()
    futures = [runtime.copy_to_device_async(array, pattern(8 * MIB)[:MIB]) for _ in range(50)]
    cancelled = [f for f in reversed(futures) if f.cancel()]
    for f in futures:
        if f in cancelled:
            with pytest.raises(gp.Error, match="cancelled"):
                f.result(30)
            assert f.cancelled() and isinstance(f.exception(), RuntimeError)
        else:
            f.result(30)
    engine = runtime.transfers(device)
    engine.synchronize()
    assert engine.active() == []
    assert engine.stats().cancelled_count >= len(cancelled)
    assert engine.device == device
    assert repr(engine) == f"TransferEngine(device={device})"
    assert engine.pinned_bytes % (4 * MIB) == 0
    engine.trim()


def test_result_times_out(device):
    array = gp.zeros((32 * MIB,), dtype=gp.uint8)
    source = np.ones(32 * MIB, np.uint8)
    future = [runtime.copy_to_device_async(array, source) for _ in range(16)][-1]
    with pytest.raises(TimeoutError, match="is not over"):
        future.result(timeout=0)
    future.result()
    with pytest.raises(ValueError):
        future.result(-1)


def test_await(device):
    source = pattern(5 * MIB)

    async def work():
        array = gp.zeros((5 * MIB,), dtype=gp.uint8)
        assert await runtime.copy_to_device_async(array, source) is array
        copies = await asyncio.gather(*(runtime.copy_to_host_async(array) for _ in range(4)))
        return copies

    for copy in asyncio.run(work()):
        np.testing.assert_array_equal(copy, source)


def test_cancelled_await_leaves_the_copy_alone(device):
    source = pattern(16 * MIB)
    array = gp.zeros((16 * MIB,), dtype=gp.uint8)

    async def work():
        future = runtime.copy_to_device_async(array, source)

        async def wait():
            await future

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return future

    asyncio.run(work()).result(30)
    np.testing.assert_array_equal(array.to_numpy(), source)


def test_threads(device):
    errors = []

    def work(seed):
        try:
            for i in range(10):
                source = pattern(100_000 + seed + i, seed * 100 + i)
                array = gp.zeros((source.size,), dtype=gp.uint8)
                runtime.copy_to_device_async(array, source, priority=i % 3)
                back = runtime.copy_to_host_async(array)
                np.testing.assert_array_equal(back.result(30), source)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_refused_in_a_capture(device):
    array = gp.zeros((8,), dtype="float32")
    graph = gp.CudaGraph()
    with pytest.raises(gp.Error, match="copy_to_host_async.*capture"), graph.capture():
        runtime.copy_to_host_async(array)


def test_page_locked_memory_comes_and_goes_in_a_capture(device):
    x, out = gp.ones(8), gp.zeros(8)
    gp.add(x, x, out=out)
    held = [runtime.pinned_empty((8,))]
    graph = gp.CudaGraph()
    with graph.capture():
        gp.add(x, x, out=out)
        held.append(runtime.pinned_empty((8,)))
        held.clear()
        runtime.transfers().trim()
        gp.add(out, x, out=out)
    graph.replay()
    assert out.tolist() == [3.0] * 8


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "futures[0].add_done_callback(print)"])
def test_interpreter_may_exit_with_copies_in_flight(ending):
    code = f"""
import numpy as np
import pygpukit as gp
from pygpukit import runtime
arrays = [gp.zeros((32 << 20,), dtype=gp.uint8) for _ in range(4)]
futures = [runtime.copy_to_device_async(a, np.ones(32 << 20, np.uint8)) for a in arrays]
{ending}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Fatal" not in done.stderr and "Traceback" not in done.stderr, done.stderr
