"""Sizes of memory as people write them, wherever the memory and scheduler API takes bytes."""

from __future__ import annotations

import pytest

import pygpukit as gp
from pygpukit import memory, runtime, scheduler
from pygpukit.runtime import (
    AdmissionConfig,
    AdmissionController,
    PartitionConfig,
    PartitionLimits,
    PartitionManager,
    PinnedPoolConfig,
    QosPolicyEvaluator,
    QosTaskMeta,
    ResourceRequirements,
)

MB = 1 << 20


@pytest.mark.parametrize(
    "text, size",
    [("16MB", 16 * MB), ("16 MiB", 16 * MB), ("1.5 gib", 3 << 29), ("512", 512), ("512 B", 512), ("4KB", 4096)],
)
def test_a_pool_reads_sizes(text, size):
    assert memory.MemoryPool(text, device="cpu").quota == size
    assert runtime.MemoryPool(text, device="cpu").quota == size


@pytest.mark.parametrize("text", ["16 M", "sixteen", "-1MB", "", "16,5 MB"])
def test_what_is_no_size_is_refused_by_name(text):
    with pytest.raises(gp.ArgumentError, match="MemoryPool: quota must be a number of bytes or a text such as '16MB'"):
        memory.MemoryPool(text, device="cpu")
    with pytest.raises(gp.ArgumentError, match="PartitionLimits: memory_quota must be a number of bytes"):
        PartitionLimits(text)


def test_pool_blocks_and_limits():
    pool = memory.MemoryPool("16MB", device="cpu")
    assert pool.allocate("1MB").size == MB
    pool.host_limit = "2MB"
    assert pool.host_limit == 2 * MB
    with pytest.raises(gp.ArgumentError, match="allocate: size"):
        pool.allocate("much")


def test_contexts(fresh_contexts):
    from pygpukit.scheduler.execution import initialize

    initialize(device_total_memory="1GB", total_vram_budget="512MB")
    context = scheduler.create_context("chat", max_vram="16MB", base_vram="4MB")
    assert context.max_vram == scheduler.get_context("chat").max_vram == 16 * MB
    assert context.track_allocation(1, "12MB") and not context.track_allocation(2, "12MB")
    assert scheduler.get_available_vram() <= 512 * MB
    with pytest.raises(gp.ArgumentError, match="create_context: max_vram"):
        scheduler.create_context("other", max_vram="16 apples")


def test_schedulers_and_tasks():
    calls = scheduler.Scheduler(total_memory="1GB")
    assert calls.get_task(calls.submit(lambda: None, memory="16MB")).memory == 16 * MB
    assert scheduler.Task(lambda: None, memory="16MB").memory == 16 * MB
    assert runtime.TaskMeta("a", "a", memory_estimate="16MB").memory_estimate == 16 * MB
    runtime.Scheduler("1GB")
    with pytest.raises(gp.ArgumentError, match="TaskMeta: memory_estimate"):
        runtime.TaskMeta("a", "a", memory_estimate="16 MBit")


def test_partitions_admission_and_qos():
    assert PartitionLimits().memory("4GB").memory_quota == PartitionLimits("4GB").memory_quota == 4 << 30
    assert PartitionLimits.with_memory("4GB").memory_quota == 4 << 30
    assert PartitionConfig(total_memory="8GB").total_memory == 8 << 30
    assert PartitionManager.with_memory("8GB").config.total_memory == 8 << 30
    admission = AdmissionController(AdmissionConfig("64MB", 1.0))
    assert admission.try_admit("t", "16MB", 0.1).is_admitted() and admission.stats().reserved_memory == 16 * MB
    assert ResourceRequirements("1MB", "2MB").memory_limit == 2 * MB
    assert QosTaskMeta.guaranteed("t", "T", "256MB").memory_request == 256 * MB
    assert QosPolicyEvaluator("8GB", 1.0).stats().total_memory == 8 << 30
    assert PinnedPoolConfig(max_size="64MB").max_size == 64 * MB
