"""Host-to-device copies that stall: behind a default stream that waits for all others, or in pageable memory."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pygpukit as gp
from pygpukit import runtime
from report import Report, on_gpu, torch_with_gpu

MIB = 1024 * 1024
SIZE = 256 * MIB
BUSY_MS = 40.0  # long against a copy of SIZE


def ms(call: Callable[[], Any], repeats: int = 5, before: Callable[[], Any] = lambda: None) -> float:
    """Median milliseconds of a call, without those of what goes before it."""
    times = []
    for _ in range(repeats):
        before()
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def show_on_torch(report: Report, torch: Any) -> None:
    name = f"torch {torch.__version__}"
    pageable = torch.ones(SIZE, dtype=torch.uint8)
    pinned = torch.ones(SIZE, dtype=torch.uint8).pin_memory()
    target = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    cycles = torch_cycles(torch)

    def busy() -> None:
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)

    def copy() -> None:
        target.copy_(pageable, non_blocking=True)

    copy()
    alone, behind = ms(copy, before=torch.cuda.synchronize), ms(copy, before=busy)
    text = f"non_blocking copy of {SIZE // MIB} MiB of pageable memory, the call itself"
    report.peer(
        f"{name}: {text}: {alone:.1f} ms, behind {BUSY_MS:.0f} ms of work on its default stream {behind:.1f} ms"
    )
    busy()
    target.copy_(pinned, non_blocking=True)
    pinned.fill_(7)
    wrong = int((target != 1).sum().item())
    report.peer(
        f"{name}: non_blocking copy of pinned memory that is overwritten after the call: {wrong / SIZE:.0%} wrong"
    )


def torch_cycles(torch: Any) -> int:
    """What `torch.cuda._sleep` takes for BUSY_MS."""
    trial = 10_000_000
    torch.cuda._sleep(trial)
    torch.cuda.synchronize()
    return int(trial * BUSY_MS / ms(lambda: (torch.cuda._sleep(trial), torch.cuda.synchronize())))


class Busy:
    """Work of about BUSY_MS on a stream of its own."""

    def __init__(self) -> None:
        self.stream = gp.StreamManager().create_stream("low")
        with self.stream:
            self.a = gp.random.uniform((8192, 8192), seed=1)
            self.out = gp.empty_like(self.a)
        self.times = 20
        self.run()
        self.times = max(1, round(self.times * BUSY_MS / ms(self.run)))

    def submit(self) -> None:
        with self.stream:
            for _ in range(self.times):
                gp.tanh(self.a, out=self.out)

    def run(self) -> None:
        self.submit()
        self.stream.synchronize()


def check_overlap(report: Report) -> None:
    """Copies take the time of the longer of the two, not of both."""
    busy = Busy()
    target = gp.empty((SIZE,), dtype="uint8")
    page_locked = runtime.pinned_empty((SIZE,), "uint8")
    page_locked[:] = 1
    compute = ms(busy.run)
    for name, source in {"page-locked": page_locked, "pageable": np.ones(SIZE, np.uint8)}.items():

        def copy(source: np.ndarray = source) -> None:
            runtime.copy_to_device_async(target, source).result()

        def both(source: np.ndarray = source) -> None:
            busy.submit()
            future = runtime.copy_to_device_async(target, source)
            future.result()
            busy.stream.synchronize()

        copy()
        alone, together = ms(copy), ms(both)
        hidden = (compute + alone - together) / min(compute, alone)
        text = (
            f"work {compute:.1f} ms, copy {alone:.1f} ms, both {together:.1f} ms: {hidden:.0%} of the shorter is hidden"
        )
        report.check(f"copy_to_device_async of {SIZE // MIB} MiB, {name}, beside work", text, hidden >= 0.5)


def check_other_streams(report: Report) -> None:
    """A plain copy waits for its own stream only: not for another stream, not for the legacy one of the process."""
    source, target = np.ones(SIZE, np.uint8), gp.empty((SIZE,), dtype="uint8")

    def copy() -> None:
        gp.copy_to_device(target, source.ctypes.data, source.nbytes)
        gp.current_stream().synchronize()

    def check(name: str, submit: Callable[[], None], wait: Callable[[], None]) -> None:
        def keep_busy() -> None:
            wait()
            submit()

        beside = ms(copy, before=keep_busy)
        wait()
        text = f"{alone:.1f} ms alone, {beside:.1f} ms"
        report.check(f"copy_to_device beside {BUSY_MS:.0f} ms on {name}", text, beside < alone + BUSY_MS / 2)

    copy()
    alone, busy = ms(copy), Busy()
    check("another stream", busy.submit, busy.stream.synchronize)
    torch = torch_with_gpu()
    if torch is None:
        report.skip("a copy beside work on the legacy stream needs a library that uses it")
        return
    cycles = torch_cycles(torch)
    check("the legacy stream", lambda: torch.cuda._sleep(cycles), torch.cuda.synchronize)


def check_overwritten_sources(report: Report, rounds: int = 20) -> None:
    """A source is the caller's again when the call returns, behind earlier work of the stream too."""
    width = 4096 if on_gpu() else 64
    a = gp.random.uniform((width, width), seed=1)
    out = gp.empty_like(a)
    for name, source in {
        "pageable": np.empty(9 * MIB, np.uint8),
        "pageable, small": np.empty(100_003, np.uint8),
        "page-locked": runtime.pinned_empty((9 * MIB,), "uint8"),
    }.items():
        wrong = 0
        for i in range(rounds):
            source[:] = i
            for _ in range(20):
                gp.tanh(a, out=out)
            copied = gp.from_numpy(source)
            source[:] = 255
            wrong += not (copied.to_numpy() == i).all()
        text = f"from_numpy, {name}, source overwritten after the call: wrong of {rounds}"
        report.check(text, str(wrong), wrong == 0)


def main() -> int:
    report = Report("host-to-device copies that stall")
    report.show_torch(show_on_torch)
    check_overwritten_sources(report)
    if on_gpu():
        check_overlap(report)
        check_other_streams(report)
    else:
        report.skip("copies beside work need a GPU; the CPU backend runs submitted work at once")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
