"""pygpukit.profiling: times of real events, figures of the real pool, the trace of what ran."""

from __future__ import annotations

import json
import threading

import pytest

import pygpukit as gp
from pygpukit import profiling
from pygpukit.profiling import (
    KernelRecord,
    MemoryProfiler,
    MemorySnapshot,
    Profiler,
    ProfilerContext,
    export_chrome_trace,
    export_combined_trace,
)


@pytest.fixture(autouse=True)
def on(device):
    with gp.device(device):
        yield device


def events(path):
    return json.loads(path.read_text())["traceEvents"]


def test_record_derives_rates():
    record = KernelRecord("k", 2.0, 2000.0, flops=4e9, bytes_transferred=6e6, timestamp=12.5)
    assert record.tflops == pytest.approx(2.0)
    assert record.bandwidth_gb_s == pytest.approx(3.0)
    assert record.timestamp == 12.5
    assert KernelRecord("k", 2.0, 2000.0).tflops is None
    assert KernelRecord("k", 0.0, 0.0, flops=1.0, bytes_transferred=1.0).bandwidth_gb_s is None
    copy = KernelRecord.from_native(record)
    assert (copy.name, copy.elapsed_us, copy.flops, copy.timestamp) == ("k", 2000.0, 4e9, 12.5)


def test_context_times_what_the_stream_ran():
    x = gp.ones((256, 256))
    with ProfilerContext("products", flops=2.0 * 256**3) as section:
        with pytest.raises(gp.Error, match="known after its `with` block"):
            _ = section.elapsed_ms
        y = x @ x
    one = section.elapsed_ms
    assert y.to_numpy()[0, 0] == 256
    assert one > 0 and section.elapsed_us == pytest.approx(one * 1e3)
    assert section.tflops == pytest.approx(2.0 * 256**3 / section.elapsed_us * 1e-6)
    assert section.bandwidth_gb_s is None
    with ProfilerContext("more") as longer:
        for _ in range(20):
            y = x @ x
    assert longer.elapsed_ms > one
    with pytest.raises(gp.Error, match="products2"):
        _ = ProfilerContext("products2").elapsed_ms


def test_profiler_collects_and_summarises(capsys):
    profiler = Profiler()
    x = gp.ones((64, 64))
    for _ in range(3):
        with profiler.record("add"):
            x = x + 1
    with pytest.raises(ZeroDivisionError):
        with profiler.record("fails", flops=1.0):
            raise ZeroDivisionError
    assert [r.name for r in profiler.records] == ["add", "add", "add", "fails"]
    assert profiler.using_native and not Profiler(use_native=False).using_native
    summary = profiler.summary_by_name()
    add = summary["add"]
    assert add["count"] == 3 and set(add) == {"count", "total_ms", "avg_ms", "min_ms", "max_ms"}
    assert add["min_ms"] <= add["avg_ms"] <= add["max_ms"]
    assert add["total_ms"] == pytest.approx(sum(r.elapsed_ms for r in profiler.records[:3]))
    assert profiler.total_time_ms == pytest.approx(add["total_ms"] + summary["fails"]["total_ms"])
    profiler.print_summary()
    text = capsys.readouterr().out
    assert text.startswith("Profiler Summary") and "add" in text
    assert max(map(len, text.splitlines())) <= 80
    profiler.clear()
    assert profiler.records == [] and profiler.total_time_ms == 0


def test_records_have_many_readers(capsys):
    profiler = profiling.Profiler()
    for number in range(40):
        with profiler.record(f"section {number}"):
            gp.ones(10)
    found = []
    readers = [threading.Thread(target=lambda: found.append(len(profiler.records))) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert found == [40] * 8
    assert [record.name for record in profiler.records] == [f"section {number}" for number in range(40)]


def test_long_names_are_cut_between_characters(capsys):
    profiler = profiling.Profiler()
    with profiler.record("a" + "\u00e9" * 40):
        gp.ones(10)
    profiler.print_summary()
    assert "\u00e9..." in capsys.readouterr().out


def test_memory_profiler_sees_the_pool(capsys):
    memory = MemoryProfiler()
    before = memory.snapshot("before")
    block = gp.empty((1 << 20,), dtype="float32")
    after = memory.snapshot("after")
    assert after.used - before.used >= 4 << 20
    assert after.allocation_count == before.allocation_count + 1
    assert memory.peak_used_bytes == after.used and memory.peak_used_mb == pytest.approx(after.used_mb)
    difference = memory.diff("before", "after")
    assert difference["used_delta"] == after.used - before.used
    assert difference["active_blocks_delta"] == 1 and difference["time_delta"] >= 0
    assert memory.diff(after, before)["used_delta"] == -difference["used_delta"]
    del block
    assert memory.snapshot("freed").used == before.used
    assert memory.get_snapshot("after") is memory.snapshots[1] and memory.get_snapshot("none") is None
    with pytest.raises(KeyError, match="'before', 'after', 'freed'"):
        memory.diff("before", "none")
    memory.print_report()
    memory.print_diff("before", "after")
    text = capsys.readouterr().out
    assert "Memory Profiler Report" in text and "+4.00 MiB" in text
    assert max(map(len, text.splitlines())) <= 80
    memory.clear()
    assert memory.snapshots == [] and memory.peak_used_bytes == 0


def test_memory_profiler_follows_the_default_pool(on):
    pool = gp.memory.MemoryPool(64 << 20, device=on)
    gp.memory.set_default_pool(pool)
    try:
        start = MemoryProfiler().snapshot()
        x = gp.empty((1 << 20,), dtype="float32")
        now = MemoryProfiler().snapshot()
        assert now.quota == 64 << 20
        assert now.used == pool.used == start.used + x.nbytes
        assert now.available == pool.available
        assert now.utilization == pytest.approx(now.used / now.quota)
        usage = profiling.get_current_memory_usage()
        assert (usage["used"], usage["quota"]) == (now.used, now.quota)
    finally:
        gp.memory.set_default_pool(None)


def test_memory_snapshot_derives():
    snapshot = MemorySnapshot("s", 1.0, quota=8 << 20, used=2 << 20, cached=1 << 20, reuse_count=3, cudamalloc_count=1)
    assert (snapshot.used_mb, snapshot.cached_mb, snapshot.utilization, snapshot.reuse_rate) == (2.0, 1.0, 0.25, 0.75)
    empty = MemorySnapshot()
    assert (empty.utilization, empty.reuse_rate) == (0.0, 0.0)


def test_chrome_trace_lays_records_end_to_end(tmp_path):
    path = tmp_path / "trace.json"
    records = [
        KernelRecord("a", 1.0, 1000.0, flops=2e9, timestamp=100.0),
        KernelRecord("b", 0.5, 500.0, bytes_transferred=1e6, timestamp=100.0),
        KernelRecord("late", 0.25, 250.0, timestamp=100.01),
    ]
    snapshots = [MemorySnapshot("m", 100.002, quota=4 << 20, used=1 << 20)]
    export_chrome_trace(records, path, memory_snapshots=snapshots, process_name="p", thread_name="t")
    spans = [e for e in events(path) if e["ph"] == "X"]
    assert [(e["name"], e["cat"], e["dur"]) for e in spans] == [
        ("a", "kernel", 1000.0), ("b", "kernel", 500.0), ("late", "kernel", 250.0)
    ]  # fmt: skip
    assert [round(e["ts"]) for e in spans] == [0, 1000, 10000]
    assert spans[0]["args"]["tflops"] == pytest.approx(2.0) and "bytes" not in spans[0]["args"]
    assert spans[1]["args"]["bandwidth_gb_s"] == pytest.approx(2.0)
    (instant,) = [e for e in events(path) if e["ph"] == "i"]
    assert (instant["cat"], instant["tid"], round(instant["ts"])) == ("memory", 2, 2000)
    assert {e["args"]["name"] for e in events(path) if e["ph"] == "M"} == {"p", "t", "memory"}


def test_traced_profiler_exports_what_ran(tmp_path):
    path = tmp_path / "trace.json"
    memory = MemoryProfiler()
    with Profiler() as profiler:
        with profiler.record("section"):
            x = gp.exp(gp.ones((100,)))
        memory.snapshot("after")
    assert x.to_numpy()[0] > 2.7
    export_combined_trace(profiler, memory, path, process_name="mine")
    found = events(path)
    (section,) = [e for e in found if e["ph"] == "X" and e["pid"] == 0]
    ran = [e for e in found if e["ph"] == "X" and e["pid"] != 0 and e["cat"] in ("kernel", "host function")]
    assert len(ran) >= 2 and all(e["dur"] >= 0 for e in ran)
    # One clock: what ran lies where the section does.
    assert all(section["ts"] - 1e4 < e["ts"] < section["ts"] + 5e6 for e in ran)
    assert [e["name"] for e in found if e["ph"] == "i"] == ["after"]
    Profiler().export_chrome_trace(path)
    assert not [e for e in events(path) if e["ph"] == "X"]


def test_profile_matmul_counts_its_work():
    a = gp.ones((32, 48))
    b = gp.ones((48, 16))
    record = profiling.profile_matmul(32, 16, 48, a, b, gp.matmul, warmup=1, iterations=3)
    assert record.name == "matmul_32x16x48" and record.flops == 2 * 32 * 16 * 48
    assert record.elapsed_ms > 0 and record.tflops > 0 and record.bandwidth_gb_s > 0
    assert profiling.get_global_profiler() is profiling.get_global_profiler()


def test_print_memory_summary(capsys):
    profiling.print_memory_summary()
    assert "now" in capsys.readouterr().out
