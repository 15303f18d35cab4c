"""pygpukit.scheduler: callables as tasks."""

from __future__ import annotations

import contextvars
import gc
import json
import threading
import time
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pygpukit.errors import ArgumentError, DeadlineError, Error, OutOfMemoryError
from pygpukit.scheduler import HAS_RUST_BACKEND, RustScheduler, Scheduler, Task, TaskPolicy, TaskState


def nothing():
    pass


def test_task_fields_and_defaults():
    task = Task(fn=nothing, memory=1 << 20, bandwidth=0.2)
    assert task.fn is nothing and task.memory == 1 << 20 and task.bandwidth == 0.2
    assert task.state == TaskState.PENDING and task.policy == TaskPolicy.BEST_EFFORT
    assert len(task.id) == 8 and task.id != Task(nothing).id
    assert (task.last_launch, task.execution_count, task.pacing_delay_count) == (0.0, 0, 0)
    plain = Task(nothing, policy=TaskPolicy.GUARANTEED, id="mine")
    assert plain.memory is None and plain.bandwidth is None and plain.id == "mine"
    assert plain.policy is TaskPolicy.GUARANTEED
    before = time.time()
    plain.touch()
    assert before - 1 <= plain.last_launch <= time.time() + 1
    for state in (TaskState.RUNNING, TaskState.COMPLETED):
        plain.state = state
        assert plain.state == state
    assert "mine" in repr(plain)


def test_names_and_numbers():
    assert [state.name for state in TaskState] == ["PENDING", "QUEUED", "RUNNING", "COMPLETED", "FAILED"]
    assert [policy.name for policy in TaskPolicy] == ["GUARANTEED", "BURSTABLE", "BEST_EFFORT"]
    assert HAS_RUST_BACKEND and RustScheduler is not Scheduler


def test_step_runs_in_order_and_at_most_ten():
    order = []
    scheduler = Scheduler()
    scheduler.step()
    ids = [scheduler.submit(lambda n=n: order.append(n)) for n in range(12)]
    assert len(set(ids)) == 12 and scheduler.task_count == 12
    assert scheduler.get_task(ids[0]).state == TaskState.PENDING
    scheduler.step()
    assert order == list(range(10)) and scheduler.completed_count == 10
    scheduler.step()
    assert order == list(range(12))
    assert scheduler.get_task(ids[-1]).state == TaskState.COMPLETED
    assert scheduler.get_task("unknown") is None


def test_get_task_is_live_and_the_same_object():
    scheduler = Scheduler()
    task = scheduler.get_task(scheduler.submit(nothing, memory=2048))
    assert task.memory == 2048 and scheduler.get_task(task.id) is task
    scheduler.step()
    assert task.state == TaskState.COMPLETED and task.execution_count == 1 and task.last_launch > 0


def test_setting_the_state_moves_the_task():
    scheduler = Scheduler(total_memory=100)
    task = scheduler.get_task(scheduler.submit(nothing, memory=60))
    with pytest.raises(Error, match="pending cannot become completed"):
        task.state = TaskState.COMPLETED
    task.state = TaskState.RUNNING
    assert scheduler.global_stats()["running_count"] == 1
    scheduler.step()
    assert task.execution_count == 0, "a task that runs elsewhere is not run again"
    task.state = TaskState.COMPLETED
    assert scheduler.reserved_memory == 0 and scheduler.completed_count == 1
    with pytest.raises(Error, match="completed cannot become running"):
        task.state = TaskState.RUNNING


def test_should_run_paces_by_bandwidth():
    scheduler = Scheduler(sched_tick_ms=10, window_ms=100)
    task = scheduler.get_task(scheduler.submit(nothing, bandwidth=0.5))
    now = time.time()
    assert scheduler.should_run(task, now) is False, "it does not run"
    task.state = TaskState.RUNNING
    assert scheduler.should_run(task, now) is True
    task.last_launch = now
    assert scheduler.should_run(task, now) is False
    assert scheduler.should_run(task, now + 0.04) is False
    assert scheduler.should_run(task, now + 0.06) is True
    assert task.pacing_delay_count == 2
    free = scheduler.get_task(scheduler.submit(nothing))
    free.state = TaskState.RUNNING
    free.last_launch = now
    assert scheduler.should_run(free, now) is True


def test_stats():
    scheduler = Scheduler()
    task_id = scheduler.submit(nothing, memory=1024, bandwidth=0.3, policy="burstable")
    stats = scheduler.stats(task_id)
    assert (stats["id"], stats["state"], stats["memory"], stats["bandwidth"]) == (task_id, "pending", 1024, 0.3)
    assert stats["policy"] == "burstable" and stats["execution_count"] == 0
    scheduler.step()
    stats = scheduler.stats(task_id)
    assert stats["state"] == "completed" and stats["execution_count"] == 1
    assert stats["wait_time"] >= 0 and stats["exec_time"] >= 0 and stats["last_launch"] > 0
    assert scheduler.stats("unknown") == {}
    whole = scheduler.global_stats()
    assert whole["task_count"] == 1 and whole["completed_count"] == 1 and whole["pending_count"] == 0
    assert whole["sched_tick_ms"] == 1.0 and whole["window_ms"] == 10.0
    assert whole["total_memory"] is None and whole["available_memory"] is None
    for key in ("running_count", "failed_count", "reserved_memory", "avg_wait_time", "avg_exec_time"):
        assert whole[key] >= 0


def test_memory_gates_and_comes_back_on_every_exit():
    scheduler = Scheduler(total_memory=100)
    running = []

    def fail():
        running.append(scheduler.reserved_memory)
        raise ValueError("boom")

    first = scheduler.submit(fail, memory=70)
    second = scheduler.submit(lambda: running.append(scheduler.reserved_memory), memory=70)
    assert scheduler.reserved_memory == 70 and scheduler.available_memory == 30
    assert scheduler.get_task(second).state == TaskState.QUEUED
    scheduler.step()
    assert running == [70, 70] and scheduler.reserved_memory == 0
    assert scheduler.get_task(first).state == TaskState.FAILED
    with pytest.raises(OutOfMemoryError, match="needs 101 bytes, the scheduler has 100"):
        scheduler.submit(nothing, memory=101)
    assert scheduler.task_count == 2


def test_guaranteed_tasks_get_memory_first():
    order = []
    scheduler = Scheduler(total_memory=100)
    scheduler.submit(nothing, memory=100)
    scheduler.submit(lambda: order.append("best effort"), memory=80)
    scheduler.submit(lambda: order.append("guaranteed"), memory=80, policy="guaranteed")
    scheduler.run()
    assert order == ["guaranteed", "best effort"]


def test_a_task_that_raises():
    scheduler = Scheduler()

    def fail():
        raise ValueError("boom")

    bad = scheduler.submit(fail)
    child = scheduler.submit(nothing, dependencies=[bad])
    good = scheduler.submit(lambda: 5)
    scheduler.run()
    assert scheduler.stats(bad)["state"] == "failed" and scheduler.stats(bad)["error"] == "ValueError: boom"
    assert scheduler.stats(child)["error"] == f"dependency '{bad}' failed: ValueError: boom"
    assert isinstance(scheduler.get_task(bad).exception, ValueError)
    with pytest.raises(ValueError, match="boom") as caught:
        scheduler.result(bad)
    assert "fail" in [entry.name for entry in caught.traceback]
    with pytest.raises(Error, match=f"dependency '{bad}' failed"):
        scheduler.result(child)
    assert scheduler.result(good) == 5
    assert scheduler.global_stats()["failed_count"] == 2


def test_base_exceptions_leave_step():
    scheduler = Scheduler()

    def interrupt():
        raise KeyboardInterrupt("stop")

    bad = scheduler.submit(interrupt)
    good = scheduler.submit(lambda: 1)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        scheduler.step()
    assert scheduler.stats(bad)["state"] == "failed"
    assert scheduler.stats(good)["state"] == "pending"
    assert scheduler.run() == 1


def test_dependencies_and_priorities_order():
    order = []
    scheduler = Scheduler()
    last = scheduler.submit(lambda: order.append("last"), priority=-1)
    first = scheduler.submit(lambda: order.append("first"), priority=2)
    scheduler.submit(lambda: order.append("child"), dependencies=[last])
    scheduler.submit(lambda: order.append("plain"))
    assert scheduler.run() == 4
    assert order == ["first", "plain", "last", "child"]
    assert scheduler.result(first) is None


def test_deadlines():
    scheduler = Scheduler()
    seen = []

    def slow():
        task = scheduler.get_task(late)
        while not task.stop_requested:
            time.sleep(0.001)
        seen.append(True)
        return "discarded"

    late = scheduler.submit(slow, timeout=0.05)
    waiting = scheduler.submit(nothing, dependencies=[late], timeout=0.01)
    scheduler.run()
    assert seen == [True]
    for task_id in (late, waiting):
        assert scheduler.stats(task_id)["state"] == "failed"
        with pytest.raises(DeadlineError) as caught:
            scheduler.result(task_id)
        assert isinstance(caught.value, TimeoutError)


def test_cancel():
    scheduler = Scheduler()
    task_id = scheduler.submit(nothing)
    assert scheduler.cancel(task_id) is True and scheduler.cancel(task_id) is False
    assert scheduler.cancel("unknown") is False
    assert scheduler.get_task(task_id).state == TaskState.FAILED
    assert scheduler.global_stats()["cancelled_count"] == 1
    with pytest.raises(Error, match="cancelled before it ran"):
        scheduler.result(task_id)


def test_bad_arguments():
    scheduler = Scheduler()
    with pytest.raises(TypeError, match="fn must be callable"):
        scheduler.submit(5)
    with pytest.raises(ArgumentError, match="policy must be 'guaranteed'"):
        scheduler.submit(nothing, policy="important")
    for keywords in ({"memory": -1}, {"bandwidth": 1.5}, {"bandwidth": float("nan")}, {"timeout": -1.0}):
        with pytest.raises(ValueError):
            scheduler.submit(nothing, **keywords)
    with pytest.raises(ValueError):
        scheduler.wait("unknown")
    with pytest.raises(ValueError):
        Scheduler(total_memory=-1)
    assert scheduler.task_count == 0


def test_the_task_runs_in_the_context_of_its_submission():
    variable = contextvars.ContextVar("variable", default="default")
    seen = []

    def look():
        seen.append(variable.get())
        variable.set("changed inside")

    scheduler = Scheduler()
    variable.set("submitted")
    scheduler.submit(look)
    variable.set("later")
    scheduler.run()
    assert seen == ["submitted"] and variable.get() == "later"


def test_a_task_may_submit_and_run_others():
    scheduler = Scheduler()
    order = []

    def outer():
        inner = scheduler.submit(lambda: order.append("inner"))
        scheduler.run()
        order.append("outer")
        return scheduler.result(inner)

    scheduler.submit(outer)
    assert scheduler.run() == 1 and order == ["inner", "outer"]


class Big:
    """A callable whose result is itself."""

    def __call__(self):
        return self


def alive(references):
    gc.collect()
    return sum(reference() is not None for reference in references)


def submit_many(scheduler, count, **options):
    work = [Big() for _ in range(count)]
    return [scheduler.submit(one, **options) for one in work], [weakref.ref(one) for one in work]


@pytest.mark.parametrize("history", [0, 1, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_only_the_history_keeps_ended_tasks_and_their_results(history, workers):
    scheduler = Scheduler(history=history)
    ids, references = submit_many(scheduler, 1500)
    if workers:
        scheduler.start_workers(workers)
        assert scheduler.wait(timeout=60) and scheduler.stop_workers()
    else:
        assert scheduler.run() == 1500
    assert scheduler.completed_count == 1500
    known = [task_id for task_id in ids if scheduler.get_task(task_id) is not None]
    assert len(known) == history
    assert alive(references) == history


def test_what_is_submitted_and_run_one_by_one_is_forgotten_one_by_one():
    scheduler = Scheduler(history=1)
    references = []
    for _ in range(50):
        references += submit_many(scheduler, 1)[1]
        assert scheduler.step() == 1
        assert alive(references) == 1


def test_a_refused_task_is_not_kept():
    scheduler = Scheduler(total_memory=100)
    work = Big()
    reference = weakref.ref(work)
    with pytest.raises(OutOfMemoryError):
        scheduler.submit(work, memory=101)
    del work
    assert alive([reference]) == 0


def test_clear_forgets_what_ended_except_what_is_held():
    scheduler = Scheduler(history=5)
    ids, references = submit_many(scheduler, 20)
    kept = scheduler.get_task(ids[0])
    scheduler.run()
    assert scheduler.completed_count == 20
    scheduler.clear()
    gc.collect()
    assert kept.state == TaskState.COMPLETED
    assert sum(reference() is not None for reference in references) == 1, "the one that is held"
    assert scheduler.task_count == 0 and scheduler.get_task(ids[-1]) is None


def test_a_scheduler_in_a_cycle_is_freed():
    class Holder:
        pass

    def make():
        holder = Holder()
        holder.scheduler = Scheduler()
        holder.scheduler.submit(lambda: holder)
        holder.scheduler.submit(lambda: holder)
        holder.scheduler.step(1)
        return weakref.ref(holder)

    reference = make()
    gc.collect()
    assert reference() is None


def test_threads_submit_at_once():
    scheduler = Scheduler()
    ids = []

    def submit():
        for _ in range(200):
            ids.append(scheduler.submit(nothing))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 800 == scheduler.task_count
    scheduler.run()
    assert scheduler.completed_count == 800


def test_the_log_gives_numbered_reasons():
    scheduler = Scheduler(total_memory=10)
    scheduler.submit(nothing, memory=8)
    second = scheduler.submit(nothing, memory=8)
    scheduler.run()
    events = [json.loads(line) for line in scheduler.decision_log().splitlines()]
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    mine = [(event["action"], event.get("reason")) for event in events if event["subject"] == second]
    assert mine == [("hold", "memory"), ("start", "first in order"), ("completed", None)]
    assert len(scheduler.decision_log(after=events[-2]["number"]).splitlines()) == 1


def test_repr():
    assert repr(Scheduler()).startswith("Scheduler(")


TASKS = st.lists(
    st.tuples(
        st.integers(0, 100),  # memory
        st.integers(-3, 3),  # priority
        st.sampled_from(["guaranteed", "burstable", "best_effort"]),
        st.lists(st.integers(0, 30), max_size=2),  # dependencies, by position
        st.sampled_from(["ok", "ok", "ok", "raise", "cancel"]),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(TASKS, st.integers(100, 250))
def test_no_overcommit_and_every_task_ends(tasks, total):
    scheduler = Scheduler(total_memory=total)
    ids, ran = [], []

    def work(number, memory, outcome):
        ran.append(number)
        assert memory <= scheduler.reserved_memory <= total
        if outcome == "raise":
            raise ValueError(number)

    for number, (memory, priority, policy, dependencies, outcome) in enumerate(tasks):
        ids.append(
            scheduler.submit(
                lambda n=number, m=memory, o=outcome: work(n, m, o),
                memory=memory,
                priority=priority,
                policy=policy,
                dependencies=[ids[i] for i in dependencies if i < number],
            )
        )
        if outcome == "cancel":
            scheduler.cancel(ids[-1])
        assert scheduler.reserved_memory <= total
    scheduler.run()
    failed = set()
    for number, (_, _, _, dependencies, outcome) in enumerate(tasks):
        if outcome != "ok" or failed & {i for i in dependencies if i < number}:
            failed.add(number)
        state = scheduler.get_task(ids[number]).state
        assert state == (TaskState.FAILED if number in failed else TaskState.COMPLETED)
    assert len(ran) == len(set(ran)), "each ran once"
    assert set(range(len(tasks))) - failed <= set(ran)
    assert scheduler.reserved_memory == 0
