"""runtime.Scheduler: tasks that the caller runs."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pygpukit import runtime
from pygpukit.errors import ArgumentError, OutOfMemoryError
from pygpukit.runtime import Scheduler, TaskMeta

TaskState = runtime.scheduler.TaskState
TaskPolicy = runtime.scheduler.TaskPolicy


def test_enums_keep_names_and_numbers():
    assert [(s.name, s.value) for s in TaskState] == [
        ("Pending", 0), ("Running", 1), ("Completed", 2), ("Failed", 3), ("Cancelled", 4),
    ]  # fmt: skip
    assert [(p.name, p.value) for p in TaskPolicy] == [("Fifo", 0), ("Sjf", 1), ("Priority", 2)]
    assert not hasattr(runtime, "TaskState") and not hasattr(runtime, "TaskPolicy")
    for name in ("Scheduler", "TaskMeta", "SchedulerStats", "TaskStats"):
        assert getattr(runtime, name) is getattr(runtime.scheduler, name)


def test_task_meta():
    task = TaskMeta("a", "Task A", memory_estimate=10, priority=2, dependencies=["b"])
    assert (task.id, task.name, task.memory_estimate, task.priority) == ("a", "Task A", 10, 2)
    assert task.dependencies == ["b"] and task.state == TaskState.Pending and task.policy == TaskPolicy.Priority
    assert TaskMeta("a", "a").policy == TaskPolicy.Fifo
    assert task.started_at is None and task.completed_at is None and task.error is None
    assert abs(task.submitted_at - time.time()) < 60
    assert task.is_terminal() is False and task.elapsed() >= 0 and task.duration() is None
    with pytest.raises(ArgumentError, match="memory_estimate must not be negative, got -1"):
        TaskMeta("a", "a", memory_estimate=-1)
    with pytest.raises(ValueError):
        TaskMeta("", "a")


def test_life_of_a_task():
    scheduler = Scheduler(total_memory=1000)
    assert (scheduler.total_memory, scheduler.sched_tick_ms, scheduler.window_ms) == (1000, 10.0, 100.0)
    assert scheduler.submit(TaskMeta("a", "A", memory_estimate=600)) == "a"
    stats = scheduler.stats()
    assert (stats.reserved_memory, stats.available_memory, stats.pending_count) == (600, 400, 1)
    assert scheduler.should_run("a") and not scheduler.should_run("unknown")
    assert scheduler.complete_task("a") is False, "it has not started"
    assert scheduler.start_task("a") is True and scheduler.start_task("a") is False
    assert scheduler.get_task_state("a") == TaskState.Running
    assert scheduler.complete_task("a") is True
    for refused in (scheduler.complete_task("a"), scheduler.fail_task("a", "x"), scheduler.cancel_task("a")):
        assert refused is False
    task = scheduler.get_task("a")
    assert task.is_terminal() and task.started_at <= task.completed_at and task.duration() >= 0
    stats = scheduler.task_stats("a")
    assert stats.id == "a" and stats.name == "A" and stats.state == TaskState.Completed and stats.memory_used == 600
    assert stats.wait_time >= 0 and stats.exec_time >= 0
    assert scheduler.stats().completed_count == 1 and scheduler.stats().reserved_memory == 0
    assert scheduler.get_task("unknown") is None and scheduler.get_task_state("unknown") is None
    assert scheduler.task_stats("unknown") is None


def test_errors():
    scheduler = Scheduler(total_memory=10)
    scheduler.submit(TaskMeta("a", "a"))
    with pytest.raises(ArgumentError, match="id must not be in use, got 'a'"):
        scheduler.submit(TaskMeta("a", "a"))
    with pytest.raises(OutOfMemoryError) as caught:
        scheduler.submit(TaskMeta("b", "b", memory_estimate=11))
    assert isinstance(caught.value, MemoryError) and caught.value.asked_bytes == 11
    with pytest.raises(ValueError, match="circle|itself"):
        scheduler.submit(TaskMeta("c", "c", dependencies=["c"]))


def test_runnable_tasks_follow_order_and_dependencies():
    scheduler = Scheduler()
    scheduler.submit(TaskMeta("a", "a"))
    scheduler.submit(TaskMeta("b", "b", dependencies=["a"]))
    scheduler.submit(TaskMeta("c", "c", dependencies=["never submitted"]))
    scheduler.submit(TaskMeta("d", "d", priority=5))
    assert scheduler.get_runnable_tasks() == ["d"]
    assert scheduler.get_runnable_tasks(10) == ["a", "c"]
    assert scheduler.get_runnable_tasks(10) == []
    scheduler.complete_task("a")
    assert scheduler.get_runnable_tasks(10) == ["b"]
    scheduler.fail_task("b", "boom")
    scheduler.submit(TaskMeta("e", "e", dependencies=["b"]))
    assert scheduler.get_task("e").state == TaskState.Failed
    assert scheduler.get_task("e").error == "dependency 'b' failed: boom"


def test_timeout_fails_the_task():
    scheduler = Scheduler(sched_tick_ms=1.0)
    scheduler.submit(TaskMeta("a", "a", timeout=0.01))
    scheduler.submit(TaskMeta("b", "b", timeout=0.01))
    scheduler.start_task("b")
    assert scheduler.wait("a", timeout=30) is True
    assert "deadline" in scheduler.get_task("a").error
    assert scheduler.complete_task("b") is False
    assert scheduler.get_task_state("b") == TaskState.Failed


def test_admission():
    scheduler = Scheduler(total_memory=100, max_pending_tasks=2)
    assert scheduler.evaluate_admission(TaskMeta("a", "a", memory_estimate=80)).is_admitted()
    assert scheduler.stats().total_submitted == 0
    decision = scheduler.admit(TaskMeta("a", "a", memory_estimate=80))
    assert decision.is_admitted() and decision.reserved_memory == 80 and decision.reserved_bandwidth == 0.8
    decision = scheduler.admit(TaskMeta("b", "b", memory_estimate=80))
    assert decision.is_queued() and decision.queue_position == 2 and decision.estimated_wait_ms >= 0
    decision = scheduler.admit(TaskMeta("c", "c"))
    assert decision.reject_reason() == runtime.RejectReason.QueueFull and scheduler.get_task("c") is None
    scheduler.get_runnable_tasks()
    decision = scheduler.admit(TaskMeta("d", "d", memory_estimate=101))
    assert decision.rejection_reason.reason_type == "InsufficientMemory"
    scheduler.complete_task("a")
    stats = scheduler.admission_stats()
    assert (stats.admitted_count, stats.queued_count, stats.rejected_count) == (1, 1, 2)
    assert stats.reserved_memory == 80, "what a held is given to b"


def test_clear_and_history():
    scheduler = Scheduler(history=2)
    for n in range(5):
        scheduler.submit(TaskMeta(str(n), "n"))
        scheduler.get_runnable_tasks()
        scheduler.complete_task(str(n))
    assert scheduler.get_task("2") is None and scheduler.get_task("3") is not None
    assert scheduler.stats().completed_count == 5
    scheduler.clear()
    assert scheduler.stats().total_submitted == 0 and scheduler.get_task("4") is None


def test_every_class_has_a_repr():
    scheduler = Scheduler()
    scheduler.submit(TaskMeta("a", "a"))
    for thing in (scheduler, scheduler.stats(), scheduler.task_stats("a"), scheduler.get_task("a")):
        assert repr(thing).startswith(type(thing).__name__ + "(")
    for line in scheduler.decision_log().splitlines():
        json.loads(line)


def test_rates_are_measured():
    assert runtime._bench_scheduler(pending=1000, count=2000) > 1000
    assert runtime._bench_admission(count=2000) > 1000


class SchedulerMachine(RuleBasedStateMachine):
    """Random calls against a model of the states."""

    TOTAL = 100

    def __init__(self):
        super().__init__()
        self.scheduler = Scheduler(total_memory=self.TOTAL)
        self.memory = {}
        self.states = {}

    @rule(memory=st.integers(0, 100), priority=st.integers(-2, 2), after=st.lists(st.integers(0, 40), max_size=2))
    def submit(self, memory, priority, after):
        name = str(len(self.memory))
        dependencies = [str(n) for n in after if str(n) != name and int(n) < len(self.memory)]
        self.scheduler.submit(
            TaskMeta(name, name, memory_estimate=memory, priority=priority, dependencies=dependencies)
        )
        self.memory[name] = memory

    @rule(count=st.integers(0, 4))
    def take(self, count):
        for name in self.scheduler.get_runnable_tasks(count):
            assert self.states.get(name, TaskState.Pending) == TaskState.Pending
            assert self.scheduler.get_task_state(name) == TaskState.Running

    @precondition(lambda self: self.memory)
    @rule(data=st.data(), action=st.sampled_from(["start_task", "complete_task", "fail_task", "cancel_task"]))
    def act(self, data, action):
        name = data.draw(st.sampled_from(sorted(self.memory)))
        before = self.scheduler.get_task_state(name)
        arguments = (name, "failed") if action == "fail_task" else (name,)
        done = getattr(self.scheduler, action)(*arguments)
        if action == "start_task":
            assert not done or before == TaskState.Pending
        elif action == "complete_task":
            assert done == (before == TaskState.Running)
        else:
            assert done == (before in (TaskState.Pending, TaskState.Running))

    @invariant()
    def consistent(self):
        counts = dict.fromkeys(TaskState, 0)
        running = 0
        for name, memory in self.memory.items():
            state = self.scheduler.get_task_state(name)
            assert state is not None, "lost"
            before = self.states.get(name)
            if before in (TaskState.Completed, TaskState.Failed, TaskState.Cancelled):
                assert state == before
            self.states[name] = state
            counts[state] += 1
            running += memory if state == TaskState.Running else 0
        stats = self.scheduler.stats()
        assert running <= stats.reserved_memory <= self.TOTAL
        assert stats.available_memory == self.TOTAL - stats.reserved_memory
        assert (stats.pending_count, stats.running_count) == (counts[TaskState.Pending], counts[TaskState.Running])
        assert stats.completed_count == counts[TaskState.Completed]
        assert stats.total_submitted == len(self.memory)

    def teardown(self):
        # Nothing starves: with every running task completed, all get their turn.
        for _ in range(2 * len(self.memory) + 1):
            self.scheduler.get_runnable_tasks(100)
            for name in self.memory:
                self.scheduler.complete_task(name)
        stats = self.scheduler.stats()
        assert stats.pending_count == stats.running_count == stats.reserved_memory == 0


SchedulerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSchedulerMachine = SchedulerMachine.TestCase
