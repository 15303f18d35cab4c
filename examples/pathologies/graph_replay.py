"""A graph replay that changes results: the graph reads an address, and another array lives there by now."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import pygpukit as gp
from report import Report

ROWS, WIDTH, REPLAYS = 64, 256, 200


def show_on_torch(report: Report, torch: Any) -> None:
    x = torch.ones(1 << 20, device="cuda")
    y = x * 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graph.replay()
    before = y[0].item()
    del x
    other = torch.full((1 << 20,), 9.0, device="cuda")
    graph.replay()
    after = y[0].item()
    text = f"torch {torch.__version__}: y = 2 x replays as {before}; x dropped and another array made: {after}"
    report.peer(text + (", which is 2 times that array" if after == 2 * other[0].item() else ""))


class Chain:
    """Four operations over buffers of its own: what is captured is what runs eagerly."""

    def __init__(self) -> None:
        self.x = gp.random.normal((ROWS, WIDTH), seed=1).astype("bfloat16")
        self.weight = gp.random.normal((WIDTH, WIDTH), seed=2).astype("bfloat16")
        self.gamma = gp.ones((WIDTH,), dtype="bfloat16")
        self.hidden = gp.empty((ROWS, WIDTH), dtype="bfloat16")
        self.y = gp.empty((ROWS, WIDTH), dtype="bfloat16")

    def submit(self) -> None:
        gp.matmul(self.x, self.weight, out=self.hidden)
        gp.gelu(self.hidden, out=self.hidden)
        gp.rmsnorm(self.hidden, self.gamma, out=self.hidden)
        gp.softmax(self.hidden, out=self.y)

    def capture(self) -> gp.CudaGraph:
        self.submit()  # loads the kernels
        graph = gp.CudaGraph()
        with graph.capture():
            self.submit()
        return graph


def bits(array: gp.GPUArray) -> bytes:
    return array.to_numpy().tobytes()


def check_dropped_inputs(report: Report) -> None:
    chain = Chain()
    chain.submit()
    eager, y = bits(chain.y), chain.y
    graph = chain.capture()
    del chain  # only the graph still holds what it reads
    differ = 0
    for i in range(REPLAYS):
        # These take any block that is free, and would overwrite one that the graph had let go.
        junk = [gp.full(shape, float(i), dtype="bfloat16") for shape in [(ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH,)] * 2]
        y.fill(0.0)
        graph.replay()
        differ += bits(y) != eager
        del junk
    report.check(f"replays with dropped inputs that differ from the eager bits, of {REPLAYS}", str(differ), differ == 0)
    equal = graph.verify()
    report.check("verify(): a replay and the same work one by one, every written byte", str(equal), equal)


def check_new_inputs(report: Report, rounds: int = 20) -> None:
    chain = Chain()
    graph = chain.capture()
    differ = 0
    for seed in range(rounds):
        chain.x[...] = gp.random.normal((ROWS, WIDTH), seed=100 + seed).astype("bfloat16")
        chain.submit()
        eager = bits(chain.y)
        chain.y.fill(0.0)
        graph.replay()
        differ += bits(chain.y) != eager
    report.check(f"replays on new inputs that differ from the eager bits, of {rounds}", str(differ), differ == 0)


def check_refusals(report: Report) -> None:
    """What a replay could not repeat is refused when it is captured."""
    x = gp.ones((8,))
    calls = {
        "an allocation": lambda: gp.add(x, 1.0),
        "a wait": lambda: x.to_numpy(),
        "a copy from host memory": lambda: gp.from_numpy(np.ones(8, np.float32)),
        "a draw from the random state": lambda: gp.random.normal((8,), out=x),
    }
    refused = []
    with gp.CudaGraph().capture():
        for name, call in calls.items():
            try:
                call()
            except RuntimeError:
                refused.append(name)
    report.check("refused inside a capture", ", ".join(refused), len(refused) == len(calls))


def main() -> int:
    report = Report("graph replay that changes results")
    report.show_torch(show_on_torch)
    check_dropped_inputs(report)
    check_new_inputs(report)
    check_refusals(report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
