"""Worker threads: waiting, stopping, failing to start, signals and the end of the interpreter."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from pygpukit.errors import DeadlineError, Error
from pygpukit.scheduler import Scheduler, TaskState


@pytest.fixture
def scheduler():
    made = Scheduler(total_memory=1000)
    yield made
    made.clear()
    assert made.stop_workers(timeout=30)


def test_workers_run_tasks_and_callers_wait(scheduler):
    scheduler.start_workers(3)
    assert scheduler.worker_count == 3
    with pytest.raises(Error, match="workers run already"):
        scheduler.start_workers()
    threads = set()

    def work(n):
        threads.add(threading.get_ident())
        time.sleep(0.001)
        return n * n

    ids = [scheduler.submit(lambda n=n: work(n), memory=n) for n in range(50)]
    assert [scheduler.result(task_id, timeout=30) for task_id in ids] == [n * n for n in range(50)]
    assert scheduler.wait(timeout=30) is True
    assert threading.get_ident() not in threads
    assert scheduler.stop_workers() is True and scheduler.worker_count == 0
    left = scheduler.submit(lambda: 1)
    assert scheduler.wait(left, timeout=0.01) is False
    assert scheduler.run() == 1


def test_result_gives_up_after_its_timeout(scheduler):
    go = threading.Event()
    scheduler.start_workers()
    task_id = scheduler.submit(go.wait)
    with pytest.raises(DeadlineError, match="has not ended"):
        scheduler.result(task_id, timeout=0.02)
    go.set()
    assert scheduler.result(task_id, timeout=30) is True


def test_deadline_and_cancel_reach_running_tasks(scheduler):
    scheduler.start_workers(2)
    started = threading.Barrier(3)

    def until_stopped(name):
        started.wait()
        task = scheduler.get_task(ids[name])
        while not task.stop_requested:
            time.sleep(0.001)

    ids = {}
    ids["deadline"] = scheduler.submit(lambda: until_stopped("deadline"), memory=10, timeout=0.2)
    ids["cancel"] = scheduler.submit(lambda: until_stopped("cancel"), memory=10)
    started.wait()
    assert scheduler.cancel(ids["cancel"]) is True
    with pytest.raises(Error, match="cancelled while it ran"):
        scheduler.result(ids["cancel"], timeout=30)
    with pytest.raises(DeadlineError, match="deadline"):
        scheduler.result(ids["deadline"], timeout=30)
    assert scheduler.reserved_memory == 0


def test_base_exceptions_in_workers_fail_the_task_only(scheduler):
    scheduler.start_workers()

    def leave():
        raise SystemExit(3)

    bad = scheduler.submit(leave)
    good = scheduler.submit(lambda: 7)
    assert scheduler.result(good, timeout=30) == 7
    assert scheduler.get_task(bad).state == TaskState.FAILED
    assert scheduler.worker_count == 1


def test_threads_run_and_submit_while_workers_work(scheduler):
    scheduler.start_workers(2)
    done = []

    def use():
        for _ in range(100):
            scheduler.submit(lambda: done.append(1), memory=300)
            scheduler.step()

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scheduler.run()
    assert scheduler.wait(timeout=30)
    assert len(done) == 300 and scheduler.reserved_memory == 0


def test_bad_counts(scheduler):
    for count in (0, -1, 257):
        with pytest.raises(ValueError, match="count must be from 1 to 256"):
            scheduler.start_workers(count)


def run_script(code, timeout=60):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_thread_that_cannot_be_started():
    done = run_script(
        """
import resource
from pygpukit.scheduler import Scheduler

scheduler = Scheduler()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), hard))  # room for a few stacks at most
try:
    scheduler.start_workers(200)
    print("started")
except RuntimeError as error:
    print("could not be started" in str(error), scheduler.worker_count)
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
scheduler.start_workers(2)
print(scheduler.result(scheduler.submit(lambda: 42)))
"""
    )
    assert done.stdout.split() == ["True", "0", "42"], done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "body",
    [
        "lambda: None",
        "lambda: time.sleep(0.3)",
        "lambda: time.sleep(1000)",
        "spin",
        "stubborn",
    ],
)
def test_the_interpreter_ends_with_work_in_flight(body):
    done = run_script(
        f"""
import sys, time
from pygpukit.scheduler import Scheduler

def spin():
    while True:
        time.sleep(0.0001)

def stubborn():
    while True:
        try:
            while True:
                time.sleep(0.0001)
        except BaseException:
            pass

scheduler = Scheduler()
scheduler.start_workers(3)
for _ in range(10):
    scheduler.submit({body})
time.sleep(0.05)
print("end")
sys.stdout.flush()
sys.exit(5)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (5, "end\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    "wait",
    [
        "scheduler.wait()",
        "scheduler.result(task)",
        "scheduler.run()",
        "scheduler.stop_workers()",
    ],
)
def test_keyboard_interrupt_passes_through_a_wait(wait):
    done = run_script(
        f"""
import os, signal, threading, time
from pygpukit.scheduler import Scheduler

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored

scheduler = Scheduler()
go = threading.Event()
scheduler.start_workers(1)
task = scheduler.submit(go.wait)
while scheduler.global_stats()["running_count"] == 0:
    time.sleep(0.001)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    {wait}
    print("returned")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < 10)
go.set()
print(scheduler.wait(timeout=30), scheduler.stop_workers())
"""
    )
    assert done.stdout.split() == ["interrupted", "True", "True", "True"], done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_keyboard_interrupt_inside_a_task_leaves_run():
    done = run_script(
        """
import os, signal, threading, time
from pygpukit.scheduler import Scheduler

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored

scheduler = Scheduler()
task = scheduler.submit(lambda: time.sleep(30))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    scheduler.run()
    print("returned")
except KeyboardInterrupt:
    print("interrupted", scheduler.stats(task)["state"])
"""
    )
    assert done.stdout.split() == ["interrupted", "failed"], done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_forked_child_has_no_workers_and_ends():
    done = run_script(
        """
import os, sys
from pygpukit.scheduler import Scheduler

scheduler = Scheduler()
scheduler.start_workers(2)
scheduler.result(scheduler.submit(lambda: 1))
pid = os.fork()
if pid == 0:
    print(scheduler.worker_count, flush=True)
    sys.exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), scheduler.worker_count)
"""
    )
    assert done.stdout.split() == ["0", "4", "2"], done.stdout + done.stderr


def test_a_stop_is_not_over_while_a_thread_left_behind_runs():
    made = Scheduler()
    inside, go = threading.Event(), threading.Event()
    made.start_workers()
    made.submit(lambda: (inside.set(), go.wait(30)))
    assert inside.wait(30)
    assert made.stop_workers(timeout=0.01) is False
    assert made.stop_workers(timeout=0.01) is False and made.worker_count == 0
    go.set()
    assert made.stop_workers() is True


def test_a_scheduler_may_go_while_its_task_runs():
    done = run_script(
        """
import gc, threading, time
from pygpukit.scheduler import Scheduler

for own in (False, True):  # the task stops its own workers, or someone else does
    s, inside, go, out = Scheduler(), threading.Event(), threading.Event(), threading.Event()
    s.start_workers()

    def work(s):
        if own:
            assert s.stop_workers() is True  # the task itself does not count
        del s
        inside.set()
        go.wait(30)
        out.set()
        return bytes(100)

    held = [s]
    s.submit(lambda: work(held.pop()))
    assert inside.wait(30)
    for _ in range(2):
        assert s.stop_workers(timeout=0.01) is False
    if own:
        s.clear()
    del s
    gc.collect()
    junk = [Scheduler().submit(lambda: 1) for _ in range(10)], [bytearray(200) for _ in range(20000)]
    go.set()
    assert out.wait(30)
    time.sleep(0.05)
print("alive")
"""
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGALRM")
def test_a_signal_handler_may_stop_workers_that_are_being_stopped():
    done = run_script(
        """
import signal, threading
from pygpukit.scheduler import Scheduler

s, inside, go = Scheduler(), threading.Event(), threading.Event()
s.start_workers()
s.submit(lambda: (inside.set(), go.wait(30)))
assert inside.wait(30)

def handler(*_):
    print(s.stop_workers(timeout=0.01))
    go.set()

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
print(s.stop_workers(timeout=5))
""",
        timeout=10,
    )
    assert (done.returncode, done.stdout) == (0, "False\nTrue\n"), done.stderr
