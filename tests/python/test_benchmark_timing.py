"""Turns of the benchmarks' clocks, and how a peer is timed."""

import contextlib
import itertools
from types import SimpleNamespace

import pytest

import pygpukit as gp
from pygpukit.benchmark import peers
from pygpukit.benchmark.timing import IN_A_ROW, Effort, Timer, take_turns


class Fixed(Timer):
    """A clock of its own: each pass takes as long."""

    def __init__(self, name, us, log):
        super().__init__([lambda: None])
        self.name, self.us, self.log = name, us, log

    def pass_us(self, passes):
        self.log.append((self.name, passes))
        return self.us


@pytest.mark.parametrize(("iterations", "turns"), [(1, 1), (3, 3), (5, 5), (50, 5)])
def test_a_turn_is_as_long_as_asked(iterations, turns):
    log = []
    effort = Effort(warmup=0, iterations=iterations, turn_us=2000.0)
    samples = take_turns([Fixed("a", 100.0, log), Fixed("b", 40.0, log)], effort)
    assert [len(s.values) for s in samples] == [iterations, iterations]
    timed = log[2:]  # the first passes tell how many fit
    changes = sum(before[0] != after[0] for before, after in itertools.pairwise(timed))
    assert changes == 2 * turns - 1
    assert sum(passes for name, passes in timed if name == "a") == 20 * turns
    assert sum(passes for name, passes in timed if name == "b") == 50 * turns


class Ways(peers._Numpy):
    def timer(self, calls):
        if calls[0] is None:
            raise RuntimeError("no kernel for this")
        return Fixed("", calls[0](), [])


def test_ways_that_cannot_be_the_fastest_are_left_out():
    ways = {"slow": [lambda: 90.0], "none": [None], "second": [lambda: 13.0], "first": [lambda: 10.0]}
    assert Ways().near_fastest(ways) == ["first", "second"]
    assert Ways().near_fastest({"none": [None]}) == []


def test_a_library_that_is_broken_here_is_no_peer(monkeypatch):
    def open_broken(name, on_gpu):
        raise OSError("its driver is too old")

    monkeypatch.setattr(peers, "_open", open_broken)
    with gp.device("cpu"):
        found, absent = peers.find_peers()
    assert [peer.name for peer in found] == ["numpy"]
    assert [(entry.name, entry.reason) for entry in absent] == [("torch", "its driver is too old")]


class Event:
    def __init__(self, enable_timing):
        pass

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return 0.006  # ms


def stand_in(capture):
    @contextlib.contextmanager
    def graph(captured, stream):
        if capture == "refused":
            raise RuntimeError("operation not permitted when stream is capturing")
        yield

    cuda = SimpleNamespace(
        Stream=lambda: SimpleNamespace(synchronize=lambda: None), stream=lambda side: contextlib.nullcontext(),
        CUDAGraph=lambda: SimpleNamespace(replay=lambda: None), graph=graph, Event=Event, synchronize=lambda: None,
    )  # fmt: skip
    return SimpleNamespace(__version__="stand-in", cuda=cuda)


@pytest.mark.parametrize("capture", ["allowed", "refused"])
def test_torch_is_timed_in_a_row_where_no_graph_holds_its_calls(capture):
    count = []
    timer = peers._Torch(stand_in(capture), on_gpu=True).timer([lambda: count.append(1)])
    assert (timer.clock == IN_A_ROW) == (capture == "refused")
    before = len(count)
    assert timer.pass_us(3) == pytest.approx(2.0)
    assert len(count) - before == (3 if capture == "refused" else 0)
