"""The figures of the runtime core: pool, eviction, isolation, shares, overlap, bits, scheduler. See measure.py."""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

MB = 1 << 20

SPIN = """
extern "C" __global__ void spin(unsigned* sm, long long cycles) {
  long long start = clock64();
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  if (threadIdx.x == 0) sm[id] = 1;
  while (clock64() - start < cycles) {
  }
}
"""


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure_pool(gp: Any, torch: Any, report: Any) -> None:
    """Alloc and free on the hit path, and a loop that must not ask the driver."""
    report.add("pool_hit_us", gp.runtime._bench_pool(200000) / 1e3)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(50):
        begin = time.perf_counter()
        for _ in range(256):
            gp.empty((4096,), dtype="float32")
        ours.append((time.perf_counter() - begin) / 256)
        begin = time.perf_counter()
        for _ in range(256):
            torch.empty(4096, device="cuda")
        theirs.append((time.perf_counter() - begin) / 256)
    us, torch_us = statistics.median(ours) * 1e6, statistics.median(theirs) * 1e6
    report.add("empty_vs_torch", us / torch_us, ours_us=us, torch_us=torch_us)

    def decode(step: int) -> None:
        x = gp.full((8, 1024), 0.5, dtype="float32")
        for _ in range(24):
            y = gp.mul(gp.add(x, x), 0.5)
            x = gp.softmax(gp.add(y, x[:, :1024]))
        gp.sum(x[:, : 100 + step % 7])

    for step in range(20):
        decode(step)
    gp.synchronize()
    before = gp.device("cuda").memory_stats()["driver_allocations"]
    for step in range(400):
        decode(step)
    gp.synchronize()
    report.add("decode_driver_allocations", gp.device("cuda").memory_stats()["driver_allocations"] - before)


def measure_eviction(gp: Any, torch: Any, report: Any) -> None:
    """Arrays worth three times the quota under four threads; and the speed of moving a block out and back."""
    pool = gp.memory.MemoryPool(256 * MB, enable_eviction=True)
    gp.memory.set_default_pool(pool)
    wrong: list[int] = []
    try:
        rng = np.random.default_rng(3)
        count, size = 96, 2 * MB  # 96 x 8 MiB = 3 quotas
        data = [rng.integers(0, 1 << 20, size).astype(np.int32) for _ in range(count)]
        arrays = [gp.from_numpy(d) for d in data]
        locks = [threading.Lock() for _ in range(count)]

        def work(seed: int) -> None:
            order = np.random.default_rng(seed)
            for _ in range(150):
                i = int(order.integers(count))
                with locks[i]:
                    gp.add(arrays[i], 3, out=arrays[i])
                    data[i] += 3
                    if order.integers(3) == 0 and not np.array_equal(arrays[i].to_numpy(), data[i]):
                        wrong.append(i)

        threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wrong += [i for i in range(count) if not np.array_equal(arrays[i].to_numpy(), data[i])]
        report.add("evicted_arrays_wrong", len(wrong), evictions=pool.stats()["eviction_count"])
        arrays.clear()
    finally:
        gp.memory.set_default_pool(None)
    for label, size in (("", 64 * MB), ("_16mib", 16 * MB)):
        measure_moves(gp, torch, report, label, size)


def measure_moves(gp: Any, torch: Any, report: Any, label: str, size: int) -> None:
    """How fast one block leaves and comes back, against torch's copies of page-locked memory."""
    raw = gp.runtime.MemoryPool(quota=1024 * MB, enable_eviction=True)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device="cuda")

    def copy_s(call: Callable[[], Any]) -> float:
        times = []
        for _ in range(20):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    down = copy_s(lambda: host.copy_(device, non_blocking=True))
    up = copy_s(lambda: device.copy_(host, non_blocking=True))
    block = raw.allocate(size)
    raw.write(block, np.arange(size // 4, dtype=np.int32))
    for _ in range(2):  # the host arena is page-locked after the first
        raw.evict(block)
        raw.restore(block)
    out_s, in_s = [], []
    for _ in range(20):
        begin = time.perf_counter()
        raw.evict(block)
        middle = time.perf_counter()
        raw.restore(block)
        in_s.append(time.perf_counter() - middle)
        out_s.append(middle - begin)
    for name, peer, ours in (("evict", down, statistics.median(out_s)), ("restore", up, statistics.median(in_s))):
        report.add(f"{name}{label}_vs_pinned", peer / ours, gb_s=size / ours / 1e9, pinned_gb_s=size / peer / 1e9)


class Tenants:
    """Spinning kernels, their times on the device, and a hog in a thread of its own."""

    def __init__(self, gp: Any) -> None:
        self.gp = gp
        self.kernel = gp.jit(SPIN, func="spin")
        self.seen = {name: gp.zeros((256,), dtype="uint32") for name in ("tenant", "hog", "graph", "before")}

    def spin(self, who: str, cycles: int, blocks: int, threads: int) -> None:
        self.kernel.launch((self.seen[who], cycles), {}, grid=blocks, block=threads)

    def tenant(self) -> None:
        self.spin("tenant", 200000, 64, 128)  # about 0.1 ms

    def short(self) -> None:
        self.spin("tenant", 35000, 64, 128)

    def hog(self) -> None:
        self.spin("hog", 200000, 132 * 16, 1024)

    def sms(self, who: str) -> set[int]:
        return {int(i) for i in np.nonzero(self.seen[who].to_numpy())[0]}

    def forget(self) -> None:
        for array in self.seen.values():
            array[:] = 0
        self.gp.synchronize()

    def times(self, run: Callable[[], None], count: int) -> list[float]:
        """Microseconds on the device. A kernel before the first event covers the host's part."""
        start, stop = self.gp.CudaEvent(), self.gp.CudaEvent()
        found = []
        for _ in range(count):
            self.spin("before", 100000, 1, 32)
            start.record()
            run()
            stop.record()
            stop.synchronize()
            found.append(float(self.gp.event_elapsed_us(start, stop)))
        return found

    def beside(
        self, scope: Callable[[], Any], run: Callable[[], None], count: int, hog: Callable[[], None] | None = None
    ) -> list[float]:
        hog = hog or self.hog
        over = threading.Event()

        def keep_busy() -> None:
            with scope():
                done = self.gp.CudaEvent()
                while not over.is_set():
                    for _ in range(8):
                        hog()
                    done.record()
                    done.synchronize()

        thread = threading.Thread(target=keep_busy)
        thread.start()
        time.sleep(0.05)
        try:
            return self.times(run, count)
        finally:
            over.set()
            thread.join()


def measure_isolation(gp: Any, torch: Any, report: Any) -> None:
    """A guaranteed tenant beside a hog that keeps the device full, through the public API."""
    rt = gp.runtime
    t = Tenants(gp)
    samples = 20000
    large = [gp.zeros((256 * MB,), dtype="float32") for _ in range(2)]

    def add(name: str, found: list[float], alone: list[float]) -> None:
        for label, share in (("p50", 0.5), ("p99", 0.99)):
            us, base = percentile(found, share), percentile(alone, share)
            report.add(f"isolation_{name}_{label}", us / base, us=us, alone_us=base, samples=len(found))

    def tell(name: str, found: list[float], alone: list[float]) -> None:
        """What is shared by nature: told, not limited."""
        report.data["figures"][f"isolation_{name}"] = {
            "value": percentile(found, 0.5) / percentile(alone, 0.5),
            "p99": percentile(found, 0.99) / percentile(alone, 0.99),
        }

    t.tenant()
    tell("plain_streams", t.beside(gp.Stream, t.tenant, 500), t.times(t.tenant, 500))
    manager = rt.PartitionManager(rt.PartitionConfig(total_memory=64 << 30), device="cuda")
    manager.create_partition("tenant", "tenant", rt.PartitionLimits(memory_quota=1 << 30).compute(0.25))
    with manager.session("tenant"):
        alone = t.times(t.tenant, samples)
        graph = gp.CudaGraph()
        with graph.capture():
            t.spin("graph", 200000, 64, 128)
        graph_alone = t.times(graph.replay, samples)
        short_alone = t.times(t.short, 2000)
        t.forget()
        add("default", t.beside(contextlib.nullcontext, t.tenant, samples), alone)
        tell("short_default", t.beside(contextlib.nullcontext, t.short, 2000), short_alone)
        common = t.sms("tenant") & t.sms("hog")
        manager.create_partition("hog", "hog", rt.PartitionLimits(memory_quota=1 << 30).compute(0.5))
        t.forget()
        add("partition", t.beside(lambda: manager.session("hog"), t.tenant, samples), alone)
        add("graph", t.beside(lambda: manager.session("hog"), graph.replay, samples), graph_alone)
        tell("short_partition", t.beside(lambda: manager.session("hog"), t.short, 2000), short_alone)
        common |= (t.sms("tenant") | t.sms("graph")) & t.sms("hog")
        small = [gp.zeros((4 * MB,), dtype="float32") for _ in range(2)]

        def stream_small() -> None:
            gp.add(small[0], 1.0, out=small[1])

        quiet = t.times(stream_small, 2000)
        noisy = t.beside(
            lambda: manager.session("hog"), stream_small, 2000, lambda: gp.add(large[0], 1.0, out=large[1])
        )
        tell("bandwidth_hog", noisy, quiet)
        usage = manager.usage("tenant")
        report.add(
            "isolation_common_sms",
            len(common),
            tenant=usage.sm_count,
            asked=usage.sm_asked,
            tenant_seen=len(t.sms("tenant")),
            hog_seen=len(t.sms("hog")),
        )
    refused = 0
    with manager.session("hog"):
        try:
            held = [gp.empty((256 * MB,), dtype="uint8") for _ in range(5)]
            del held
        except MemoryError:
            refused = 1
    with manager.session("tenant"):
        neighbour = gp.full((512 * MB,), 3, dtype="uint8")
        allocated = int(neighbour[-1].item() == 3)
        del neighbour
    report.add("memory_hog_walled", refused * allocated)
    del graph
    gp.synchronize()
    manager.clear()


def measure_shares(gp: Any, torch: Any, report: Any) -> None:
    """Shares of GPU time where sets of SMs are switched off, and of the copies."""
    rt = gp.runtime
    t = Tenants(gp)
    rt._use_sm_sets(False)
    manager = rt.PartitionManager(rt.PartitionConfig(total_memory=64 << 30), device="cuda")
    try:
        wanted = {"ten": 0.1, "thirty": 0.3, "sixty": 0.6}
        cycles = {"ten": 900000, "thirty": 300000, "sixty": 100000}  # about 500, 170 and 55 us
        for name, share in wanted.items():
            manager.create_partition(name, name, rt.PartitionLimits().compute(share))
        over = threading.Event()

        def launch(name: str) -> None:
            with manager.session(name):
                done = gp.CudaEvent()
                while not over.is_set():
                    for _ in range(4):
                        t.spin("hog", cycles[name], 132, 1024)
                    done.record()
                    done.synchronize()

        threads = [threading.Thread(target=launch, args=(name,)) for name in wanted]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        before = {name: manager.usage(name).compute_time_ms for name in wanted}
        time.sleep(5)
        spent = {name: manager.usage(name).compute_time_ms - before[name] for name in wanted}
        over.set()
        for thread in threads:
            thread.join()
        total = sum(spent.values())
        got = {name: spent[name] / total for name in wanted}
        worst = max(abs(got[name] - wanted[name]) for name in wanted)
        report.add("share_error_points", 100 * worst, got=got, busy=total / 5000)
    finally:
        gp.synchronize()
        manager.clear()
        rt._use_sm_sets(True)
    manager = rt.PartitionManager(rt.PartitionConfig(total_memory=64 << 30), device="cuda")
    manager.create_partition("slow", "slow", rt.PartitionLimits().bandwidth(0.2))
    target = gp.empty((64 * MB,), dtype="uint8")
    source = torch.empty(64 * MB, dtype=torch.uint8, pin_memory=True).numpy()
    with manager.session("slow"):
        rate = manager.usage("slow").bytes_per_second
        for _ in range(4):
            rt.copy_to_device_async(target, source).result()
        begin = time.perf_counter()
        for _ in range(40):
            rt.copy_to_device_async(target, source).result()
        took = time.perf_counter() - begin
    report.add(
        "bandwidth_error", abs(40 * 64 * MB / took / rate - 1), wanted_gb_s=rate / 1e9, gb_s=40 * 64 * MB / took / 1e9
    )
    manager.clear()


def measure_overlap(gp: Any, torch: Any, report: Any) -> None:
    """Copies to the device beside kernels that compute, on a stream of their own."""
    size = 512 * MB
    source = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size, dtype=torch.uint8, device="cuda")
    array = gp.empty((size,), dtype="uint8")

    def rate(copy: Callable[[], Any]) -> float:
        times = []
        for _ in range(9):
            begin = time.perf_counter()
            copy()
            times.append(time.perf_counter() - begin)
        return size / statistics.median(times)

    def torch_copy() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    ceiling = rate(torch_copy)
    host = source.numpy()
    a = gp.random.uniform((4096, 4096), dtype="float32")
    out = gp.empty((4096, 4096), dtype="float32")

    def compute() -> None:
        for _ in range(200):
            gp.tanh(a, out=out)

    def timed() -> float:
        start, stop = gp.CudaEvent(), gp.CudaEvent()
        start.record()
        compute()
        stop.record()
        stop.synchronize()
        return float(gp.event_elapsed_us(start, stop))

    with gp.Stream():
        compute()
        alone = statistics.median(timed() for _ in range(5))
    over = threading.Event()
    slowed: list[float] = []

    def keep_computing() -> None:
        with gp.Stream():  # a transfer comes after the work of the streams that use its array
            while not over.is_set():
                slowed.append(timed())

    thread = threading.Thread(target=keep_computing)
    thread.start()
    beside = rate(lambda: gp.runtime.copy_to_device_async(array, host).result())
    over.set()
    thread.join()
    report.add("overlap_copy_vs_pinned", beside / ceiling, gb_s=beside / 1e9, pinned_gb_s=ceiling / 1e9)
    report.add("overlap_compute_slowdown", statistics.median(slowed) / alone, alone_us=alone)


def measure_bits(gp: Any, torch: Any, report: Any) -> None:
    """A model-like chain in four contexts at once, in two partitions, as a graph and eager: the bits it has alone."""
    rt = gp.runtime
    x = gp.random.normal((64, 512), dtype="float32", seed=1)
    w = gp.random.normal((512, 512), dtype="float32", seed=2)
    gamma = gp.ones((512,), dtype="float32")

    def buffers() -> list[Any]:
        return [gp.empty((64, 512), dtype="float32") for _ in range(3)]

    def chain(b: list[Any]) -> None:
        gp.matmul(x, w, out=b[0])
        gp.rmsnorm(b[0], gamma, 1e-5, out=b[1])
        gp.gelu(b[1], out=b[0])
        gp.add(b[0], x, out=b[2])
        gp.softmax(b[2], out=b[1])
        gp.matmul(b[1], w, out=b[0])

    def digest(array: Any) -> str:
        return hashlib.sha256(array.to_numpy().tobytes()).hexdigest()

    mine = buffers()
    chain(mine)
    wanted = digest(mine[0])
    different: list[str] = []

    def repeat(label: str, scope: Any, count: int, as_graph: bool) -> None:
        with scope:
            b = buffers()
            graph = gp.CudaGraph() if as_graph else None
            if graph is not None:
                chain(b)
                with graph.capture():
                    chain(b)
            for _ in range(count):
                b[0][:] = 0
                if graph is not None:
                    graph.replay()
                else:
                    chain(b)
                if digest(b[0]) != wanted:
                    different.append(label)
            del graph

    contexts = [gp.scheduler.create_context(f"model-{i}", max_vram=256 * MB) for i in range(4)]
    threads = [
        threading.Thread(target=repeat, args=(c.llm_id, gp.scheduler.context_session(c), 125, i % 2 == 1))
        for i, c in enumerate(contexts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for context in contexts:
        context.destroy()
    manager = rt.PartitionManager(rt.PartitionConfig(total_memory=64 << 30), device="cuda")
    manager.create_partition("small", "small", rt.PartitionLimits().compute(32 / 132))
    manager.create_partition("large", "large", rt.PartitionLimits())  # what is left: 100 SMs
    for name in ("small", "large"):
        for as_graph in (False, True):
            repeat(f"{name} {as_graph}", manager.session(name), 125, as_graph)
    sms = {name: manager.usage(name).sm_count for name in ("small", "large")}
    report.add("context_bits_different", len(different), repeats=1000, sms=sms)
    gp.synchronize()
    manager.clear()


def measure_scheduler(gp: Any, torch: Any, report: Any) -> None:
    report.add("admissions_per_s", gp.runtime._bench_admission(1_000_000))
    report.add("tasks_per_s", gp.runtime._bench_scheduler(100_000, 200_000))
    gated, without = min((gp.runtime._bench_gate(20000) for _ in range(5)), key=lambda pair: pair[0] - pair[1])
    report.add("gate_ns", max(gated - without, 0.0), gated_ns=gated, without_ns=without)


GROUPS = {
    "pool": measure_pool, "eviction": measure_eviction, "isolation": measure_isolation, "shares": measure_shares,
    "overlap": measure_overlap, "bits": measure_bits, "scheduler": measure_scheduler,
}  # fmt: skip
