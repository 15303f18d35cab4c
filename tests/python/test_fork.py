"""After a fork the child has no CUDA, says so once and clearly, and can still use the CPU."""

from __future__ import annotations

import sys

import driver_library
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

FORK = """
import os, sys
import pygpukit as gp

def child(function):
    pid = os.fork()
    if pid == 0:
        status = 9
        try:
            function()
            status = 0
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return driver_library.build(tmp_path_factory.mktemp("driver"))


def test_child_of_a_process_that_used_cuda_gets_one_clear_error(library):
    out = driver_library.run(
        library,
        FORK
        + """
x = gp.empty(3, device="cuda")

def use():
    attempts = (
        lambda: gp.empty(3, device="cuda"),
        lambda: gp.synchronize("cuda"),
        lambda: x.to_numpy(),
        lambda: gp.empty(3),
        lambda: gp.default_device(),
    )
    for attempt in attempts:
        try:
            attempt()
            print("no error")
        except gp.DeviceError as error:
            print(error)
    print(gp.is_cuda_available(), gp.ones(3, device="cpu").device)
    with gp.device("cpu"):
        print(gp.default_device(), (gp.ones(1000) + 1).sum().item())

print(child(use))
print(gp.empty(3, device="cuda").device)
""",
    )
    lines = out.splitlines()
    assert len(lines) == 9, out
    assert len(set(lines[:5])) == 1 and "forked" in lines[0] and "spawn" in lines[0]
    assert lines[5:] == ["False cpu", "cpu 2000.0", "0", "cuda:0"]


def test_child_may_start_cuda_when_the_parent_did_not(library):
    out = driver_library.run(
        library, FORK + "print(child(lambda: print(gp.empty(3, device='cuda').device, flush=True)))"
    )
    assert out.splitlines() == ["cuda:0", "0"]


def test_child_of_a_process_that_chose_the_cpu_has_it_as_its_default(library):
    out = driver_library.run(
        library,
        FORK
        + """
x = gp.empty(3, device="cuda")
print(child(lambda: print(gp.ones(3).device, flush=True)))
""",
        PYGPUKIT_DEVICE="cpu",
    )
    assert out.splitlines() == ["cpu", "0"]


# The child asks what the other thread was about to find out for the first time.
FIRST_USE = """
import signal, threading, time

def first():
    with gp.device("cpu"):
        x = gp.ones(1000)
        (x + 1).sum().item()
        gp.matmul(x.reshape(10, 100), x.reshape(100, 10)).to_numpy()
        gp.random.normal((4,))

def use():
    signal.alarm(20)
    with gp.device("cpu"):
        assert (gp.ones(1000) + 1).sum().item() == 2000
        gp.random.normal((4,))
    try:
        gp.default_device()
    except gp.DeviceError as error:  # the parent had started CUDA
        assert "forked" in str(error)

thread = threading.Thread(target={target})
thread.start()
end = time.perf_counter() + {delay}
while time.perf_counter() < end:
    pass
print(child(use))
thread.join()
"""


@pytest.mark.parametrize("target", ["first", "gp.is_cuda_available", "gp.default_device"])
def test_a_fork_during_another_threads_first_call_leaves_the_child_whole(tmp_path, target):
    for step in range(12):
        out = driver_library.run(tmp_path, FORK + FIRST_USE.format(target=target, delay=0.0003 * step * step))
        assert out.splitlines()[-1] == "0", (step, out)


def test_cpu_works_in_children_of_a_busy_process(tmp_path):
    out = driver_library.run(
        tmp_path,
        FORK
        + """
import threading
stop = False
with gp.device("cpu"):
    x = gp.ones(1 << 18)

    def work():
        with gp.device("cpu"):
            while not stop:
                x.sum().item()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()

    def use():
        with gp.device("cpu"):
            assert (gp.ones(1 << 18) + x).sum().item() == 2 << 18

    print([child(use) for _ in range(10)])
    stop = True
    for thread in threads:
        thread.join()
    print(x.sum().item())
""",
    )
    assert out.splitlines() == [str([0] * 10), str(float(1 << 18))]


def test_children_of_a_process_that_evicts_find_their_bytes(tmp_path):
    out = driver_library.run(
        tmp_path,
        FORK
        + """
import signal, threading
from pygpukit.memory import MemoryPool, set_default_pool

stop = False
with gp.device("cpu"):
    pool = MemoryPool(8 << 20, enable_eviction=True)
    set_default_pool(pool)
    arrays = [gp.full((2 << 18,), i + 1, dtype="int32") for i in range(6)]

    def work(first):
        with gp.device("cpu"):
            i = first
            while not stop:
                int(arrays[i % 6][5])
                i += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()

    def use():
        signal.alarm(20)
        with gp.device("cpu"):
            for i, array in enumerate(arrays):
                assert (array.to_numpy() == i + 1).all(), i
            both = arrays[0] * arrays[1]
            assert int(both[7]) == 2

    print(set(child(use) for _ in range(30)))
    stop = True
    for thread in threads:
        thread.join()
    print([int(array[7]) for array in arrays], pool.stats()["eviction_count"] > 0)
    set_default_pool(None)
""",
    )
    assert out.splitlines() == ["{0}", "[1, 2, 3, 4, 5, 6] True"]
