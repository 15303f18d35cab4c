"""MemoryPool: quotas, eviction that keeps the bytes, arrays that allocate from it, and debug mode."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import memory, runtime

MIB = 1024 * 1024


@pytest.fixture
def default_pool():
    yield
    memory.set_default_pool(None)


def test_snippet_of_the_promises():
    import _pygpukit_rust as rust

    pool = rust.MemoryPool(quota=100 * 1024 * 1024, enable_eviction=True)
    block = pool.allocate(4096)
    assert block == 0
    assert rust.MemoryPool is runtime.MemoryPool is runtime.memory.MemoryPool


def test_names():
    assert memory.HAS_RUST_BACKEND is True
    assert memory.RustMemoryPool is runtime.MemoryPool
    assert memory.RustMemoryBlock is runtime.MemoryBlock
    assert memory.RustPoolStats is runtime.PoolStats
    assert (256, *(4**i * 1024 for i in range(10))) == memory.MemoryPool.SIZE_CLASSES
    assert memory.MemoryPool.SIZE_CLASSES[-1] == 256 * MIB


def test_numbers_of_a_pool():
    pool = runtime.MemoryPool(10 * MIB)
    assert [pool.allocate(100), pool.allocate(5000)] == [0, 1]
    assert (pool.quota, pool.used, pool.cached) == (10 * MIB, 256 + 16384, 0)
    assert pool.available == pool.quota - pool.used
    assert pool.get_block_size(1) == 16384
    pool.free(1)
    assert (pool.used, pool.cached) == (256, 16384)
    assert pool.allocate(10000) == 2
    stats = pool.stats()
    assert (stats.allocation_count, stats.reuse_count, stats.cudamalloc_count) == (3, 1, 2)
    assert (stats.active_blocks, stats.free_blocks, stats.eviction_count) == (2, 0, 0)
    assert pool.get_block(1) is None
    for call in (pool.free, pool.touch, pool.evict, pool.restore, pool.get_block_size, pool.is_block_on_gpu):
        with pytest.raises(ValueError, match="live block"):
            call(1)
    pool.clear()
    assert (pool.used, pool.cached, pool.stats().active_blocks) == (0, 0, 0)
    for text in (repr(pool), repr(stats), repr(runtime.MemoryPool(MIB).stats())):
        assert text.endswith(")")


def test_quota_is_a_wall():
    pool = runtime.MemoryPool(10 * MIB)
    pool.allocate(4 * MIB)
    pool.allocate(4 * MIB)
    with pytest.raises(MemoryError, match="quota of pool"):
        pool.allocate(4 * MIB)
    with pytest.raises(gp.errors.OutOfMemoryError):
        pool.allocate(1 << 50)
    assert pool.used == 8 * MIB
    with pytest.raises(ValueError):
        runtime.MemoryPool(0)
    with pytest.raises(ValueError):
        pool.allocate(-1)


def test_eviction_keeps_the_bytes(device):
    pool = memory.MemoryPool(10 * MIB, enable_eviction=True, device=device)
    data = np.random.default_rng(1).integers(0, 255, 4 * MIB, np.uint8)
    first, second = pool.allocate(4 * MIB), pool.allocate(4 * MIB)
    pool.write(first, data)
    pool.write(second, data[::-1])
    pool.touch(first)
    third = pool.allocate(4 * MIB)
    assert (first.on_gpu, second.on_gpu, second.on_host, third.on_gpu) == (True, False, True, True)
    assert second.device_ptr is None and second.host_data == data[::-1].tobytes()
    assert pool.stats()["eviction_count"] == 1
    np.testing.assert_array_equal(pool.read(second, np.uint8), data[::-1])
    np.testing.assert_array_equal(pool.read(first, np.uint8), data)
    assert pool.used <= pool.quota
    pool.evict(third)
    assert not third.on_gpu and pool.used == 8 * MIB
    pool.free(first)
    pool.restore(third)
    assert third.on_gpu and third.device_ptr
    assert pool.read(third, np.float32).size == MIB
    pool.free(second)
    with pytest.raises(ValueError):
        pool.free(second)


def test_an_address_that_was_handed_out_stays(device):
    pool = memory.MemoryPool(8 * MIB, enable_eviction=True, device=device)
    first = pool.allocate(4 * MIB)
    pool.write(first, np.full(MIB, 1, np.int32))
    address = first.device_ptr
    engine = runtime.AsyncTransferEngine(device=device)
    source = np.full(MIB, 77, np.int32)
    engine.enqueue_h2d(source.ctypes.data, address, 4 * MIB)
    others = [pool.allocate(4 * MIB) for _ in range(2)]
    for i, block in enumerate(others):
        pool.write(block, np.full(MIB, 2 + i, np.int32))
    assert engine.run() == 1
    assert [int(pool.read(block, np.int32)[-1]) for block in (first, *others)] == [77, 2, 3]
    assert first.device_ptr == address
    with pytest.raises(RuntimeError, match="pinned"):
        pool.evict(first)
    for block in others:
        assert "on_gpu" in repr(block) and block.size == 4 * MIB
        pool.evict(block)  # nothing but device_ptr hands the address out


def test_looking_at_an_evicted_block_copies_nothing():
    pool = memory.MemoryPool(8 * MIB, enable_eviction=True)
    block = pool.allocate(MIB)
    pool.evict(block)

    class OnlyBlocks:
        get_block = staticmethod(pool._pool.get_block)

    block._pool = OnlyBlocks()
    assert (block.on_gpu, block.on_host, block.device_ptr) == (False, True, None)
    assert block.last_access > 0 and "on_host=True" in repr(block)


def test_blocks_of_another_pool_are_refused():
    pool, other = memory.MemoryPool(MIB), memory.MemoryPool(MIB)
    mine, foreign = pool.allocate(256), other.allocate(256)
    for block in (foreign, memory.MemoryBlock(mine.id, 256)):
        for call in (pool.free, pool.touch, pool.evict, pool.restore):
            with pytest.raises(ValueError, match="block must be one that this pool allocated"):
                call(block)
        with pytest.raises(ValueError, match="^write: block"):
            pool.write(block, np.zeros(4))
        with pytest.raises(ValueError, match="^read: block"):
            pool.read(block, np.uint8)
    pool.free(mine)


def test_copies_are_refused_in_a_capture(device):
    x, out = gp.ones(8), gp.zeros(8)
    gp.add(x, x, out=out)
    pool = memory.MemoryPool(MIB, device=device)
    block = pool.allocate(4096)
    pool.write(block, np.arange(1024, dtype=np.float32))
    graph = gp.CudaGraph()
    with graph.capture():
        gp.add(x, x, out=out)
        with pytest.raises(gp.Error, match="write: .*capture"):
            pool.write(block, np.zeros(4))
        with pytest.raises(gp.Error, match="read: .*capture"):
            pool.read(block, np.float32)
        gp.add(out, x, out=out)
    graph.replay()
    assert out.tolist() == [3.0] * 8
    assert pool.read(block, np.float32)[7] == 7


def test_blocks_made_by_hand():
    block = memory.MemoryBlock(3, 256)
    assert (block.id, block.size, block.device_ptr, block.host_data) == (3, 256, None, None)
    assert (block.on_gpu, block.on_host) == (True, False)
    before = block.last_access
    block.touch()
    assert block.last_access >= before
    assert "id=3" in repr(block)
    for name, value in [("device_ptr", 64), ("host_data", b"x"), ("on_gpu", False), ("on_host", True), ("size", 9)]:
        setattr(block, name, value)
        assert getattr(block, name) == value
    block.last_access = 1.5
    assert block.last_access == 1.5


def test_fields_of_a_pools_block():
    pool = memory.MemoryPool(MIB)
    block = pool.allocate(100)
    block.device_ptr, block.host_data = 0x1234, b"mine"
    assert (block.device_ptr, block.host_data) == (0x1234, b"mine")
    block.host_data = None
    assert block.host_data is None
    block.device_ptr = None
    assert block.device_ptr not in (None, 0x1234)
    for name in ("on_gpu", "on_host", "last_access"):
        with pytest.raises(AttributeError, match="pool"):
            setattr(block, name, 0)


def test_what_the_caller_keeps_beside_a_block():
    pool = runtime.MemoryPool(MIB)
    number = pool.allocate(100)
    pool.set_device_ptr(number, 0x1234)
    pool.set_host_data(number, b"bytes")
    assert pool.get_block(number).device_ptr == 0x1234
    assert pool.get_host_data(number) == b"bytes"
    pool.clear_host_data(number)
    assert pool.get_host_data(number) is None
    block = pool.get_block(number)
    assert block.is_available() and not block.is_evicted()


def test_arrays_allocate_from_the_default_pool(device, default_pool):
    pool = memory.MemoryPool(8 * MIB, enable_eviction=False, device=device)
    memory.set_default_pool(pool)
    assert memory.get_default_pool() is pool
    x = gp.zeros((MIB,), dtype="float32", device=device)
    assert pool.used == 4 * MIB
    with pytest.raises(MemoryError, match="quota of pool"):
        gp.zeros((3 * MIB,), dtype="float32", device=device)
    memory.set_default_pool(None)
    assert memory.get_default_pool() is None
    y = gp.zeros((3 * MIB,), dtype="float32", device=device)
    assert pool.used == 4 * MIB and y.size == 3 * MIB
    del x
    assert pool.used == 0


def test_both_names_of_the_default_pool_agree(default_pool):
    raw, pool = runtime.MemoryPool(MIB), memory.MemoryPool(MIB)
    runtime.memory.set_default_pool(raw)
    assert memory.get_default_pool() is raw
    memory.set_default_pool(pool)
    assert memory.get_default_pool() is pool
    runtime.memory.set_default_pool(raw)
    assert memory.get_default_pool() is raw
    runtime.memory.set_default_pool(None)
    assert memory.get_default_pool() is None


def test_arrays_of_three_times_the_quota(device, default_pool):
    pool = memory.MemoryPool(8 * MIB, enable_eviction=True, device=device)
    memory.set_default_pool(pool)
    arrays = [gp.full((MIB // 2,), i, dtype="float32", device=device) for i in range(12)]
    assert pool.stats()["eviction_count"] > 0
    for i, array in enumerate(arrays):
        total = array + arrays[(i * 5) % 12]
        assert float(total[7]) == i + (i * 5) % 12
        assert pool.used <= 8 * MIB
    exported = gp.from_dlpack(arrays[5].__dlpack__(max_version=(1, 1)))
    before = pool.stats()["eviction_count"]
    more = [gp.ones((MIB // 2,), dtype="float32", device=device) for _ in range(4)]
    assert pool.stats()["eviction_count"] > before and len(more) == 4
    assert float(exported[3]) == 5
    arrays[5].fill(7)  # still the same memory
    assert float(exported[3]) == 7
    del exported


def test_threads_share_a_pool_with_eviction(device, default_pool):
    pool = memory.MemoryPool(6 * MIB, enable_eviction=True, device=device)
    memory.set_default_pool(pool)
    wrong = []
    together = threading.Barrier(4)

    def work(number):
        try:
            compute(number)
        except BaseException as error:
            wrong.append((number, error))

    def compute(number):
        stream = gp.Stream(device=device)
        with stream:
            mine = [gp.full((MIB // 4,), number * 10 + i, dtype="float32", device=device) for i in range(4)]
            together.wait(60)  # 16 MiB behind a wall of 6
            for step in range(10):
                value = float((mine[step % 4] + mine[(step + 1) % 4])[step])
                if value != 2 * number * 10 + step % 4 + (step + 1) % 4:
                    wrong.append((number, step, value))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert pool.stats()["eviction_count"] > 0
    assert pool.used <= pool.quota


def test_accounts_of_a_device(device):
    pool = runtime.MemoryPool(3 * MIB, device=device)
    pool.allocate(MIB)
    accounts = {entry["name"]: entry for entry in gp.Device(device).memory_accounts()}
    mine = [entry for entry in accounts.values() if entry["quota"] == 3 * MIB and entry["live_bytes"] == MIB]
    assert mine and mine[0]["parent"] in accounts
    stats = gp.Device(device).memory_stats()
    assert stats["reserved_bytes"] >= stats["live_bytes"] - stats["cached_bytes"]
    assert stats["retained_limit"] > 0


DEBUG_SCRIPT = """
import ctypes
import numpy as np
import pygpukit as gp
x = gp.zeros((1000,), dtype="uint8", device="cpu")
y = x + x
assert int(y[3]) == 0
gp.synchronize("cpu")
raw = gp.empty((100,), dtype="uint8", device="cpu")
ctypes.memset(raw.device_ptr + 100, 1, 2)
del raw
try:
    gp.synchronize("cpu")
except RuntimeError as error:
    assert "past its end" in str(error), error
else:
    raise SystemExit("not found")
gp.synchronize("cpu")
stats = gp.Device("cpu").memory_stats()
assert stats["reuses"] == 0 and stats["cached_bytes"] == 0, stats
print("found")
"""


def test_debug_mode_finds_an_overrun():
    import os

    env = {**os.environ, "PYGPUKIT_MEMORY_DEBUG": "1", "PYGPUKIT_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", DEBUG_SCRIPT], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "found" in done.stdout, done.stderr


def test_groups_leave_and_come_back_together(device, default_pool):
    memory.set_default_pool(memory.MemoryPool(16 * MIB, enable_eviction=True, device=device))
    x, y, other = (gp.full((MIB // 2,), i, dtype="float32", device=device) for i in range(3))
    group = runtime.EvictionGroup("model", device=device)
    group.add(x)
    group.add(y)
    assert (group.name, len(group), group.resident) == ("model", 2, True)
    assert group.stats() == {"blocks": 2, "bytes": 4 * MIB, "resident": True}
    assert group.evict() == 4 * MIB
    assert (x.on_gpu, y.on_gpu, other.on_gpu, group.resident) == (False, False, True, False)
    assert float(x[3]) == 0 and y.on_gpu and group.resident
    group.evict()
    group.restore()
    assert x.on_gpu and "model" in repr(group)
    group.set_priority(3)
    with pytest.raises(RuntimeError, match="another group"):
        runtime.EvictionGroup(device=device).add(x)
    memory.set_default_pool(None)
    with pytest.raises(RuntimeError, match="evicts"):
        group.add(gp.zeros(3, device=device))
    with pytest.raises(TypeError):
        group.add(np.zeros(3))
    group.evict()
    del group
    assert float(y[3]) == 1


def test_pins_and_priorities_say_what_stays(device, default_pool):
    memory.set_default_pool(memory.MemoryPool(8 * MIB, enable_eviction=True, device=device))
    first, second, third = (gp.full((MIB // 2,), i, dtype="float32", device=device) for i in range(3))
    runtime.set_eviction_priority(second, 5)
    with runtime.pin(first):
        more = [gp.zeros((MIB // 2,), dtype="float32", device=device) for _ in range(2)]
        assert (first.on_gpu, second.on_gpu, third.on_gpu) == (True, True, False)
    pin = runtime.pin(third)
    assert third.on_gpu
    pin.release()
    pin.release()
    del more
    assert [float(a[9]) for a in (first, second, third)] == [0, 1, 2]


def test_host_limit_of_a_pool(device):
    pool = memory.MemoryPool(8 * MIB, enable_eviction=True, device=device)
    assert pool.host_limit == 0
    pool.host_limit = MIB
    assert pool.host_limit == MIB
    block = pool.allocate(4 * MIB)
    with pytest.raises(MemoryError, match="host memory"):
        pool.evict(block)
    pool.host_limit = 0
    pool.evict(block)
    assert block.on_host
    with pytest.raises(ValueError):
        pool.host_limit = -1
