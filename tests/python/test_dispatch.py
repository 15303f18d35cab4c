"""Launch requests, pacing, slices, kernel caches, the controller at the launch gate."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _core

runtime = _core.runtime
dispatch = runtime.dispatch

ON_TOP = [
    "LaunchConfig",
    "KernelDispatcher",
    "DispatchStats",
    "PacingConfig",
    "KernelPacingEngine",
    "PacingDecision",
    "PacingStats",
    "SliceConfig",
    "SliceScheduler",
    "SliceInfo",
    "KernelSlice",
    "SliceStats",
    "CompileOptions",
    "CacheConfig",
    "KernelCache",
    "CachedKernel",
    "CacheStats",
]
NESTED = [
    "KernelState",
    "KernelLaunchRequest",
    "StreamPacingStats",
    "ArchFingerprint",
    "PersistentCacheConfig",
    "PersistentCache",
    "PersistentEntry",
    "PersistentCacheStats",
]


def test_where_classes_are():
    for name in ON_TOP:
        assert getattr(runtime, name) is getattr(dispatch, name)
    for name in NESTED:
        assert hasattr(dispatch, name) and not hasattr(runtime, name)
    assert runtime.device.KernelType is runtime.KernelType is gp.KernelType
    assert runtime.device.DeviceCapabilities is runtime.DeviceCapabilities is gp.DeviceCapabilities


def test_launch_config():
    config = dispatch.LaunchConfig()
    assert (config.grid, config.block, config.shared_mem, config.stream_id) == ((1, 1, 1), (256, 1, 1), 0, 0)
    config.shared_mem, config.stream_id = 64, 3
    assert repr(config) == "LaunchConfig(grid=(1, 1, 1), block=(256, 1, 1), shared_mem=64, stream_id=3)"
    assert dispatch.LaunchConfig.linear(1025).grid == (5, 1, 1)
    assert dispatch.LaunchConfig.linear(1000, block_size=100).grid == (10, 1, 1)
    flat = dispatch.LaunchConfig.grid_2d(2, 3, 16, 8)
    assert flat.grid == (2, 3, 1) and flat.block == (16, 8, 1)
    assert dispatch.LaunchConfig(grid=4) == dispatch.LaunchConfig((4, 1, 1))
    with pytest.raises(ValueError, match="grid must be"):
        dispatch.LaunchConfig((0, 1, 1))
    with pytest.raises(ValueError, match="1 to 3 ints"):
        dispatch.LaunchConfig((1, 1, 1, 1))


def test_dispatcher():
    states = dispatch.KernelState
    d = dispatch.KernelDispatcher(max_in_flight=2)
    config = dispatch.LaunchConfig()
    first = d.queue(0x10, config, args=[1, 2])
    second = d.queue(0x10, config, priority=3, task_id="t")
    third = d.queue_for_task("t", 0x20, config, [7])
    assert [r.id for r in d.get_ready(10)] == [second, first]
    request = d.get_request(third)
    assert request.task_id == "t" and request.args == [7] and request.state == states.Queued
    assert request.launched_at is None and request.duration() is None and abs(request.queued_at - time.time()) < 60
    assert d.mark_launched(second) and d.mark_launched(first) and not d.mark_launched(third)
    assert d.get_ready(10) == [] and [r.id for r in d.get_in_flight(0)] == [first, second]
    assert d.mark_completed(first) and not d.mark_completed(first)
    assert d.get_request(first).state.is_terminal() and not d.get_request(second).state.is_terminal()
    assert d.get_request(first).duration() >= 0
    assert d.mark_failed(second, "broke") and d.get_request(second).error == "broke"
    assert d.cancel(third) and not d.cancel(third) and not d.cancel(99)
    stats = d.stats()
    assert (stats.total_queued, stats.completed_count, stats.failed_count) == (3, 1, 1)
    assert stats.launches_per_stream == {0: 2} and not d.has_pending_work()
    assert [r.id for r in d.get_requests_for_task("t")] == [second, third]
    assert d.gc() == 3 and d.get_request(first) is None
    with pytest.raises(ValueError, match="max_in_flight"):
        dispatch.KernelDispatcher(0)


def test_pacing():
    engine = dispatch.KernelPacingEngine(dispatch.PacingConfig(window_ms=1000.0))
    assert engine.allocate_stream(1, 0.6) and not engine.allocate_stream(2, 0.5) and engine.allocate_stream(2, 0.4)
    decision = engine.should_launch(1)
    assert decision.can_launch() and decision.decision_type == "Launch" and decision.wait_ms() == 0
    engine.record_launch(1)
    decision = engine.should_launch(1)
    assert not decision.can_launch() and not decision.is_throttled() and decision.decision_type == "Wait"
    assert 0 < decision.wait_ms() <= 400
    engine.record_wait(1)
    engine.record_throttle(1)
    stats = engine.stream_stats(1)
    assert (stats.stream_id, stats.bandwidth, stats.launches_in_window, stats.throttled_count) == (1, 0.6, 1, 1)
    assert engine.stream_stats(9) is None
    total = engine.stats()
    assert (total.stream_count, total.total_launches, total.total_throttled, total.total_waited) == (2, 1, 1, 1)
    assert total.used_bandwidth == pytest.approx(1.0) and total.available_bandwidth == pytest.approx(0.0)
    quick = dispatch.KernelPacingEngine(dispatch.PacingConfig(window_ms=1e6, min_interval_ms=0.0))
    quick.allocate_stream(0, 1.0)
    for _ in range(100):
        assert quick.should_launch(0).can_launch()
        quick.record_launch(0)
    assert quick.should_launch(0).is_throttled() and math.isinf(quick.should_launch(0).wait_ms())
    engine.reset()
    assert engine.stats().total_launches == 0 and engine.release_stream(1)
    config = dispatch.PacingConfig()
    assert (config.total_bandwidth, config.window_ms, config.min_interval_ms, config.adaptive) == (
        1.0,
        100.0,
        0.1,
        True,
    )


def test_slices():
    config = dispatch.SliceConfig()
    assert (config.max_items_per_slice, config.max_duration_ms) == (65536, 1.0)
    assert (config.min_slices, config.max_slices, config.adaptive) == (1, 256, True)
    slices = dispatch.SliceScheduler(dispatch.SliceConfig(max_items_per_slice=100))
    assert slices.submit(1, 250, (256, 1, 1), 0) == 3
    assert slices.submit_for_task("t", 2, 100, 64, 16, 0) == 1
    assert slices.pending_slices() == 4 and slices.pending_kernels() == 2
    first, second = slices.get_next_slice(), slices.get_next_slice()
    assert (first.kernel_handle, first.slice_id, first.offset, first.count, first.grid) == (1, 0, 0, 84, (1, 1, 1))
    assert (second.kernel_handle, second.task_id, second.block, second.grid) == (2, "t", (64, 1, 1), (2, 1, 1))
    assert slices.complete_slice(0.5)
    done = slices.slices(1)[0]
    assert done.executed and done.exec_time_ms == 0.5 and done.count == 84
    while slices.get_next_slice() is not None:
        pass
    while slices.complete_slice(0.5):
        pass
    stats = slices.stats()
    assert (stats.completed_slices, stats.completed_kernels, stats.pending_kernels) == (4, 2, 0)
    assert slices.config().max_items_per_slice == 100
    slices.clear()
    assert slices.stats().total_slices == 0
    with pytest.raises(ValueError, match="max_items_per_slice"):
        dispatch.SliceScheduler(dispatch.SliceConfig(max_items_per_slice=0))


def test_kernel_cache():
    options = dispatch.CompileOptions()
    assert options.compute_capability == "sm_75"
    richer = options.flag("-O3").define("N", "4").include("/inc")
    assert richer.flags == ["-O3"] and richer.defines == [("N", "4")] and options.flags == []
    cache = dispatch.KernelCache(dispatch.CacheConfig(max_entries=2))
    key = cache.insert("source", "f", "ptx", richer)
    assert key == cache.compute_key("source", "f", richer) != cache.compute_key("source", "f", options)
    assert 0 <= dispatch.KernelCache.hash_source("source") < 2**64
    found = cache.get(key)
    assert (found.key, found.name, found.ptx, found.access_count) == (key, "f", "ptx", 1)
    assert found.module_handle is None and not found.is_loaded()
    assert cache.set_handles(key, 1, 2) and cache.get_by_name("f", richer).is_loaded()
    assert cache.get_by_name("f", options) is None and cache.kernel_names() == ["f"]
    cache.insert("b", "b", "ptx", options)
    cache.insert("c", "c", "ptx", options)
    assert not cache.contains(key) and cache.len() == len(cache) == 2 and not cache.is_empty()
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.evictions, stats.ptx_size) == (2, 1, 1, 6)
    assert stats.hit_rate() == pytest.approx(2 / 3)
    assert cache.clear_expired() == 0 and not cache.remove(key)
    config = dispatch.CacheConfig()
    assert (config.max_entries, config.max_ptx_size) == (1024, 256 << 20)
    assert config.enable_eviction and config.ttl_seconds == 0.0
    with pytest.raises(ValueError, match="at most 10 bytes"):
        dispatch.KernelCache(dispatch.CacheConfig(max_ptx_size=10)).insert("s", "n", "12345678901", options)


def test_persistent_cache(tmp_path):
    arch = dispatch.ArchFingerprint(90, 1 << 37, 1 << 17, 65536, 1 << 25, 12040)
    assert arch.sm_version == 90 and arch.is_compatible(dispatch.ArchFingerprint(90, 1, 1, 1, 1, 12040))
    assert arch.hash() != dispatch.ArchFingerprint(80, 1 << 37, 1 << 17, 65536, 1 << 25, 12040).hash()
    folder = tmp_path / "cache"
    config = dispatch.PersistentCacheConfig(cache_dir=str(folder))
    assert (config.max_size, config.max_entries, config.auto_cleanup) == (512 << 20, 1000, True)
    assert dispatch.PersistentCacheConfig().cache_dir is None
    cache = dispatch.PersistentCache(config, arch)
    cache.initialize()
    key = cache.insert("source", "f", ["-O3"], "ptx")
    assert key == cache.compute_key(cache.hash_source("source"), "f", cache.hash_options(["-O3"]), arch.hash())
    assert sorted(p.name for p in folder.iterdir()) == sorted([f"{key:016x}.ptx.json", "index.json"])
    again = dispatch.PersistentCache(config, arch)
    entry = again.get(key)
    assert (entry.name, entry.ptx, entry.ptx_size(), entry.access_count) == ("f", "ptx", 3, 1)
    assert entry.source_hash == cache.hash_source("source") and again.len() == len(again) == 1
    (folder / f"{key:016x}.ptx.json").write_text("{")
    assert again.get(key) is None and again.stats().load_errors == 1
    assert not again.contains(key) and again.is_empty() and again.cleanup() == 0
    key = again.insert("source", "f", [], "ptx")
    assert again.remove(key) and not again.remove(key)
    again.clear()
    assert again.stats().hit_rate() == pytest.approx(0.5)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OSError):
        dispatch.PersistentCache(dispatch.PersistentCacheConfig(str(blocked)), arch).initialize()


def test_every_object_has_a_repr(tmp_path):
    arch = dispatch.ArchFingerprint(90, 1, 1, 1, 1, 12040)
    cache, disk = (
        dispatch.KernelCache(),
        dispatch.PersistentCache(dispatch.PersistentCacheConfig(str(tmp_path / "c")), arch),
    )
    engine, slices, queue = dispatch.KernelPacingEngine(), dispatch.SliceScheduler(), dispatch.KernelDispatcher()
    engine.allocate_stream(0, 0.5)
    slices.submit(1, 10, 32, 0)
    objects = [
        arch,
        cache,
        disk,
        engine,
        slices,
        queue,
        engine.should_launch(0),
        engine.stream_stats(0),
        engine.stats(),
    ]
    objects += [slices.get_next_slice(), slices.slices(1)[0], slices.stats(), slices.config(), queue.stats()]
    objects += [queue.get_request(queue.queue(1, dispatch.LaunchConfig())), dispatch.CompileOptions(), cache.stats()]
    objects += [cache.get(cache.insert("s", "n", "p")), disk.get(disk.insert("s", "n", [], "p")), disk.stats()]
    objects += [
        dispatch.CacheConfig(),
        dispatch.PersistentCacheConfig(),
        dispatch.PacingConfig(),
        dispatch.controller("cpu"),
    ]
    for value in objects:
        assert repr(value).startswith(type(value).__name__ + "("), value
    assert repr(gp.KernelType.TF32_MMA) == "KernelType.TF32_MMA"


@pytest.fixture
def controlled(device):
    """The device's controller with a stream of ours attached; both clean afterwards."""
    controller = dispatch.controller(device)
    controller.reset_statistics()
    stream = gp.Stream(device=device)
    yield controller, stream
    controller.detach(stream)
    controller.drain()


def test_controller_records(controlled, device):
    controller, stream = controlled
    tenant = controller.add_tenant("model")
    controller.attach(stream, tenant=tenant)
    with stream:
        x = gp.from_numpy(np.arange(1000, dtype=np.float32))
        y = x + x
        np.testing.assert_array_equal(y.to_numpy(), np.arange(1000, dtype=np.float32) * 2)
    controller.drain()
    records = controller.records()
    assert {r["context"] for r in records} == {"model"}
    assert {"copy_in", "copy_out"} <= {r["kind"] for r in records}
    for r in records:
        assert r["state"] == dispatch.KernelState.Completed and r["device_us"] >= 0
        assert r["queued_ns"] <= r["launched_ns"] <= r["completed_ns"]
    usage = next(u for u in controller.usage() if u["id"] == tenant)
    assert usage["kernels"] >= 1 and usage["copies"] == 2 and usage["bytes"] == 8000
    assert usage["pending_kernels"] == 0 and usage["streams"] == 1
    assert sum(k["count"] for k in controller.kernel_statistics()) == len(records)
    controller.remove_tenant(tenant)
    with stream:
        x + x
    assert len(controller.records()) == len(records)
    with pytest.raises(ValueError, match="tenant must be"):
        controller.attach(stream, tenant=tenant)


def test_controller_holds_copies_to_their_rate(controlled):
    controller, stream = controlled
    tenant = controller.add_tenant("copies", bytes_per_second=20e6)
    controller.attach(stream, tenant=tenant)
    data = np.zeros(250_000, np.float32)
    start = time.perf_counter()
    with stream:
        for _ in range(5):
            gp.from_numpy(data)
    assert time.perf_counter() - start >= 0.18
    controller.remove_tenant(tenant)


def test_a_held_back_launch_lets_other_threads_run_python(controlled):
    controller, stream = controlled
    tenant = controller.add_tenant("slow", bytes_per_second=1e6)
    controller.attach(stream, tenant=tenant)
    ticks = []
    with stream:
        x = gp.from_numpy(np.zeros(50_000, np.float32))
        done = threading.Event()

        def count():
            while not done.is_set():
                ticks.append(1)
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        x.to_numpy()
        done.set()
        thread.join()
    assert len(ticks) > 20
    controller.remove_tenant(tenant)


def run_python(code, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, **kwargs
    )


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_ends_a_wait_at_the_gate():
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
            import signal
            import numpy as np
            import pygpukit as gp
            from pygpukit._core import runtime

            signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored
            with gp.device("cpu"):
                controller = runtime.dispatch.controller("cpu")
                stream = gp.Stream()
                controller.attach(stream, tenant=controller.add_tenant("stuck", bytes_per_second=1.0))
                with stream:
                    x = gp.from_numpy(np.zeros(1000, np.float32))
                    print("waiting", flush=True)
                    try:
                        x.to_numpy()
                    except KeyboardInterrupt:
                        print("interrupted", controller.waiting, flush=True)
            """),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "interrupted 0\n" and process.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_not_controlled():
    result = run_python("""
        import os
        import numpy as np
        import pygpukit as gp
        from pygpukit._core import runtime

        with gp.device("cpu"):
            controller = runtime.dispatch.controller("cpu")
            stream = gp.Stream()
            controller.attach(stream, max_in_flight=1)
            with stream:
                x = gp.from_numpy(np.arange(4.0))
                child = os.fork()
                if child == 0:
                    ok = (x + x).to_numpy().sum() == 12 and not runtime.dispatch.controller("cpu").records()
                    os._exit(0 if ok else 1)
                assert os.waitpid(child, 0)[1] == 0
                assert (x + x).to_numpy().sum() == 12
                assert controller.records()
        """)
    assert result.returncode == 0, result.stderr


def test_the_interpreter_exits_with_work_under_control(device):
    code = """
        import numpy as np
        import pygpukit as gp
        from pygpukit._core import runtime

        controller = runtime.dispatch.controller()
        stream = gp.Stream()
        controller.attach(stream)
        with stream:
            x = gp.from_numpy(np.arange(1000.0))
            for _ in range(100):
                x = x + x
        """
    result = run_python(code, env={**os.environ, "PYGPUKIT_DEVICE": str(device)})
    assert result.returncode == 0 and result.stderr == ""


def test_gate_cost():
    costs = [runtime._bench_gate(5000) for _ in range(3)]
    assert all(0 < without < 1e6 for _, without in costs)
    assert min(gated - without for gated, without in costs) < 50


SLICED = """
extern "C" __global__ void add_one(float* x, long long item_offset, int item_count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < item_count) x[item_offset + i] += 1.0f;
}
"""


@pytest.mark.skipif(_core._compiler_info()["version"] is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12")
def test_slice_words_are_checked():
    kernel = gp.JITKernel(SLICED, "add_one")
    kernel.compile("90")
    x = gp.zeros(1000, device="cpu")
    assert kernel._pack(x, 0, 1000, slice_ms=1)[0][2] == (1000).to_bytes(4, "little")
    for bad in (0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="slice_ms must be above 0"):
            kernel._pack(x, 0, 1000, slice_ms=bad)
    with pytest.raises(ValueError, match="item_count must be an int of 0 or more"):
        kernel._pack(x, 0, -1, slice_ms=1.0)
    with pytest.raises(ValueError, match="grid_size must not be given with slice_ms"):
        kernel._pack(x, 0, 1000, slice_ms=1.0, grid=4)
    with pytest.raises(TypeError):
        kernel._pack(x, 0, 1000, slice_ms="1")
    plain = gp.JITKernel('extern "C" __global__ void f(float* x) { x[0] = 1; }', "f")
    plain.compile("90")
    assert plain._pack(x, slice_ms=1.0, grid=4)[1] == (4, 1, 1)  # declares no items: runs whole


@pytest.mark.gpu
def test_sliced_kernels_on_the_gpu():
    kernel = gp.JITKernel(SLICED, "add_one")
    controller = dispatch.controller("cuda")
    controller.reset_statistics()
    stream = gp.Stream(device="cuda")
    controller.attach(stream)
    n = 1 << 24
    with stream:
        x = gp.zeros(n, device="cuda")
        for _ in range(3):
            kernel(x, 0, n, slice_ms=0.05)
        np.testing.assert_array_equal(x.to_numpy(), np.full(n, 3, np.float32))
    controller.drain()
    slices = [r for r in controller.records() if r["note"].startswith("slice ")]
    assert len(slices) >= 3
    controller.detach(stream)


def test_arguments_that_change_their_own_list_are_read_once():
    d = runtime.dispatch.KernelDispatcher()
    values = [1]

    class Growing:
        def __index__(self):
            values.extend(range(1000))
            return 2

    values += [Growing(), 3]
    request = d.queue_for_task("t", 0x10, runtime.dispatch.LaunchConfig(), values)
    assert d.get_request(request).args == [1, 2, 3]
    with pytest.raises(TypeError, match="args"):
        d.queue(0x10, runtime.dispatch.LaunchConfig(), args=5)
