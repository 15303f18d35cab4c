"""Partitions: the rules of limits and sums, what is enforced on a device, aliases of the runtime module."""

from __future__ import annotations

import importlib
import sys
import time

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _core, runtime

MB = 1024**2
GB = 1024**3


@pytest.fixture
def sms():
    """A CPU device with 132 pretend SMs."""
    _core._set_host_sms(132)
    with gp.device("cpu"):
        yield
    _core._set_host_sms(0)


def limits(compute=0.25, memory=0):
    return runtime.PartitionLimits().memory(memory).compute(compute).bandwidth(1.0)


# Names


def test_the_old_names_are_the_very_module():
    import _pygpukit_rust as rust
    import pygpukit._pygpukit_rust as inner

    assert rust is runtime
    assert inner is runtime
    assert gp.runtime is runtime
    assert rust.scheduler is runtime.scheduler
    for name in ("_pygpukit_rust.scheduler", "pygpukit._pygpukit_rust.scheduler", "pygpukit.runtime.scheduler"):
        assert importlib.import_module(name) is runtime.scheduler
    assert sys.modules["_pygpukit_rust"] is runtime


def test_snippets_run_as_written():
    import _pygpukit_rust as rust

    pool = rust.MemoryPool(quota=100 * 1024 * 1024, enable_eviction=True)
    block = pool.allocate(4096)
    assert block is not None
    result = rust.QosPolicyEvaluator(total_memory=8 * 1024**3, total_bandwidth=1.0).evaluate(
        rust.QosTaskMeta.guaranteed("task-1", "Critical Task", 256 * 1024 * 1024)
    )
    assert result.is_admitted()
    m = rust.PartitionManager(rust.PartitionConfig(total_memory=8 * 1024**3))
    m.create_partition("inference", "Inference", rust.PartitionLimits().memory(4 * 1024**3).compute(0.5))
    assert m.partition_ids() == ["inference"]
    assert m.get("inference").limits.memory_quota == 4 * 1024**3


# Rules


def test_limits():
    a = runtime.PartitionLimits()
    assert (a.memory_quota, a.compute_share, a.bandwidth_share, a.max_streams) == (0, 1.0, 1.0, 16)
    b = a.memory(5).compute(2.0).bandwidth(-1)
    assert (b.memory_quota, b.compute_share, b.bandwidth_share) == (5, 1.0, 0.0)
    assert a.memory_quota == 0
    assert runtime.PartitionLimits.with_memory(7).memory_quota == 7
    assert runtime.PartitionLimits.with_compute(0.5).compute_share == 0.5
    assert b == runtime.PartitionLimits(memory_quota=5, compute_share=1.0, bandwidth_share=0.0)
    assert "memory_quota=5" in repr(b)
    with pytest.raises(ValueError, match="memory_quota must be 0 or more"):
        a.memory(-1)


def test_manager_rules():
    m = runtime.PartitionManager(runtime.PartitionConfig(total_memory=8 * GB))
    m.create_partition("a", "A", limits(0.5, 4 * GB).bandwidth(0.5))
    with pytest.raises(ValueError, match="'a', which exists"):
        m.create_partition("a", "A", limits())
    with pytest.raises(RuntimeError, match="bytes of memory"):
        m.create_partition("b", "B", limits(0.5, 5 * GB).bandwidth(0.5))
    with pytest.raises(RuntimeError, match="compute share"):
        m.create_partition("b", "B", limits(0.6).bandwidth(0.5))
    with pytest.raises(RuntimeError, match="bandwidth share"):
        m.create_partition("b", "B", limits(0.5).bandwidth(0.6))
    m.create_partition("b", "B", limits(0.5, 4 * GB).bandwidth(0.5))
    stats = m.stats()
    assert (stats.partition_count, stats.active_partitions, stats.available_memory) == (2, 2, 0)
    assert stats.total_compute_allocated == 1.0
    assert m.default_partition() == "a"
    m.assign_task("t", "b")
    assert m.get_task_partition("t") == "b"
    assert m.get("b").tasks == ["t"]
    m.unassign_task("t")
    assert m.get_task_partition("t") == "a"
    m.set_default("b")
    assert m.get_task_partition("t") == "b"
    gone = m.delete_partition("b")
    assert gone.id == "b" and not gone.enabled
    assert m.get("b") is None
    with pytest.raises(ValueError, match="'b'"):
        m.delete_partition("b")
    m.clear()
    assert m.partition_ids() == []
    assert m.default_partition() is None


def test_overcommit():
    m = runtime.PartitionManager(runtime.PartitionConfig(total_memory=GB, allow_overcommit=True, overcommit_ratio=2.0))
    m.create_partition("a", "A", limits(1.0, GB))
    m.create_partition("b", "B", limits(1.0, GB))
    with pytest.raises(RuntimeError):
        m.create_partition("c", "C", limits(1.0, GB))
    assert runtime.PartitionManager.with_memory(GB).config.total_memory == GB


def test_every_class_has_a_repr():
    m = runtime.PartitionManager()
    p = m.create_partition("a", "A", limits())
    for value in (m, p, p.limits, p.usage, m.stats(), m.config):
        assert type(value).__name__ in repr(value)
    assert not p.usage.enforced


# Enforced


def test_compute_share_is_a_set_of_sms(sms):
    m = runtime.PartitionManager(device="cpu")
    p = m.create_partition("a", "A", limits(0.25))
    assert (p.usage.sm_asked, p.usage.sm_count) == (33, 32)
    assert not p.usage.paced
    assert "Other libraries" in p.usage.note
    with m.session("a") as entered:
        assert entered.id == "a"
        x = gp.ones((4, 4))
        assert (x + 1).sum().item() == 32.0
    assert p.usage.total_kernels >= 2
    assert p.usage.compute_time_ms >= 0
    m.resize_partition("a", limits(0.5))
    assert p.usage.sm_count == 64
    m.delete_partition("a")


def test_session_attaches(sms):
    m = runtime.PartitionManager()
    p = m.create_partition("a", "A", limits(0.25, 64 * MB))
    assert m.device is None
    with m.session("a"):
        assert p.usage.enforced
    assert str(m.device) == "cpu:0" or "cpu" in repr(m.device)
    m.clear()


def test_memory_wall_is_the_partitions_own(sms):
    m = runtime.PartitionManager(device="cpu")
    a = m.create_partition("a", "A", limits(0.25, 8 * MB))
    outside = gp.zeros((16 * MB,), dtype="uint8")
    with m.session("a"):
        x = gp.zeros((6 * MB,), dtype="uint8")
        with pytest.raises(MemoryError):
            gp.zeros((4 * MB,), dtype="uint8")
        assert a.memory_utilization() >= 0.75
        m.resize_partition("a", limits(0.25, 4 * MB))  # below what is used: nothing is lost
        with pytest.raises(MemoryError):
            gp.zeros((1024,), dtype="uint8")
        assert x.to_numpy().sum() == 0
        del x
        gp.zeros((MB,), dtype="uint8")
    gp.zeros((16 * MB,), dtype="uint8")
    assert outside.size == 16 * MB
    assert a.usage.memory_peak >= 6 * MB
    m.clear()


def test_delete_while_entered_is_refused(sms):
    m = runtime.PartitionManager(device="cpu")
    m.create_partition("a", "A", limits())
    scope = m.session("a")
    with scope:
        with pytest.raises(RuntimeError, match="1 session entered"):
            m.delete_partition("a")
        x = gp.ones((3,)) + 1
    m.delete_partition("a")
    np.testing.assert_array_equal(x.to_numpy(), [2, 2, 2])
    with pytest.raises(RuntimeError, match="deleted"), scope:
        pass


def test_graphs_belong_to_the_partition_of_their_capture(sms):
    m = runtime.PartitionManager(device="cpu")
    m.create_partition("a", "A", limits(0.25))
    with m.session("a"):
        x = gp.zeros((4,))
        y = gp.zeros((4,))
        graph = gp.CudaGraph()
        with graph.capture():
            gp.add(x, 1.0, out=y)
        graph.replay()
        assert y.to_numpy().tolist() == [1, 1, 1, 1]
    with pytest.raises(RuntimeError, match="another session"):
        graph.replay()
    m.resize_partition("a", limits(0.5))
    with m.session("a"), pytest.raises(RuntimeError, match="have changed"):
        graph.replay()
    m.clear()
    with pytest.raises(RuntimeError, match="another session"):
        graph.replay()


def test_streams_of_graphs_are_not_counted(sms):
    m = runtime.PartitionManager(device="cpu")
    m.create_partition("a", "A", runtime.PartitionLimits(compute_share=0.25, max_streams=2))
    with m.session("a"):
        graphs = [gp.CudaGraph() for _ in range(4)]
        stream = gp.Stream()
        with pytest.raises(RuntimeError, match="max_streams"):
            gp.Stream()
    assert m.get("a").usage.active_streams == 2
    del graphs, stream
    m.clear()


def test_user_streams_move_with_their_session(sms):
    stream = gp.Stream()
    with stream:
        x = gp.ones((4,))
    m = runtime.PartitionManager(device="cpu")
    before = stream.handle
    m.create_partition("a", "A", limits(0.5))
    assert stream.handle != before
    with stream:
        y = x + 1
    stream.synchronize()
    assert y.to_numpy().tolist() == [2, 2, 2, 2]
    m.clear()
    assert stream.handle == before


def test_out_of_order_exit_is_refused(sms):
    m = runtime.PartitionManager(device="cpu")
    m.create_partition("a", "A", limits())
    outer, inner = m.session("a"), gp.Stream()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="out of order"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    m.clear()


def test_paced_without_sets_of_sms():
    with gp.device("cpu"):
        m = runtime.PartitionManager(device="cpu")
        p = m.create_partition("a", "A", limits(0.25).bandwidth(0.5))
        assert p.usage.paced
        assert p.usage.bytes_per_second > 0
        with m.session("a"):
            assert (gp.ones((8,)) + 1).sum().item() == 16.0
        assert p.usage.total_kernels > 0
        m.clear()


def tenants():
    return {t["name"]: t["weight"] for d in runtime.snapshot()["dispatch"] for t in d["tenants"]}


def test_paced_shares_beside_a_destroyed_context():
    from pygpukit.scheduler import context_session, create_context, destroy_context, reset

    with gp.device("cpu"):
        scope = context_session(create_context("gone"))
        with scope:
            gp.zeros((4,))
        destroy_context("gone")  # the scope keeps its streams
        m = runtime.PartitionManager(device="cpu")
        m.create_partition("a", "A", limits(0.25))
        assert tenants() == {"partition:a": 0.25, "default": 0.75}
        m.clear()
        assert tenants() == {}
        reset()


def test_limits_of_a_stream_stay_when_sms_move(sms):
    controller = runtime.dispatch.controller("cpu")
    m = runtime.PartitionManager(device="cpu")
    stream = gp.Stream()
    x = gp.zeros((4,))

    def waited():
        start = time.monotonic()
        with stream:
            for _ in range(3):
                gp.add(x, 1.0, out=x)
        return time.monotonic() - start

    controller.attach(stream, launch_bandwidth=0.8)  # every 20 ms
    assert waited() >= 0.039
    m.create_partition("a", "A", limits(0.5))
    assert waited() >= 0.039
    m.clear()
    assert waited() >= 0.039
    controller.detach(stream)
    other = gp.Stream()
    controller.attach(other, launch_bandwidth=1.0)  # nothing is left booked
    controller.detach(other)


def test_visibility_lists_settings(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    lines = runtime.PartitionManager(device="cpu").visibility()
    assert "CUDA_VISIBLE_DEVICES: 0" in lines
    assert all(": " in line for line in lines)
