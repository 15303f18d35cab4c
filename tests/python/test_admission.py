"""runtime.AdmissionController."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pygpukit import runtime
from pygpukit.runtime import AdmissionConfig, AdmissionController, AdmissionDecision, RejectReason

MiB = 1 << 20


def test_config():
    config = AdmissionConfig(max_memory=1 << 30, max_bandwidth=1.0)
    assert (config.max_memory, config.max_bandwidth) == (1 << 30, 1.0)
    assert (config.max_pending_tasks, config.enable_best_effort) == (1000, True)
    with pytest.raises(ValueError):
        AdmissionConfig(-1, 1.0)


def test_decisions():
    admitted, queued = AdmissionDecision.Admitted(), AdmissionDecision.Queued()
    assert (admitted.is_admitted(), admitted.is_queued(), admitted.is_rejected()) == (True, False, False)
    assert (queued.is_admitted(), queued.is_queued(), queued.is_rejected()) == (False, True, False)
    assert (admitted.decision_type, queued.decision_type) == ("Admit", "Queue")
    assert admitted.reject_reason() is None and admitted.rejection_reason is None
    assert [(r.name, r.value) for r in RejectReason] == [
        ("InsufficientMemory", 0), ("InsufficientBandwidth", 1), ("QueueFull", 2),
        ("UnsatisfiableDependencies", 3), ("Custom", 4),
    ]  # fmt: skip


def test_memory_and_release():
    controller = AdmissionController(AdmissionConfig(100 * MiB, 1.0))
    first = controller.try_admit("a", 80 * MiB, 0.5)
    assert first.is_admitted() and first.reserved_memory == 80 * MiB and first.reserved_bandwidth == 0.8
    assert controller.try_admit("b", 50 * MiB, 0.3).is_queued()
    stats = controller.stats()
    assert stats.used_memory == stats.reserved_memory == 80 * MiB and stats.available_memory == 20 * MiB
    assert stats.used_bandwidth == stats.reserved_bandwidth == 0.8
    assert (stats.admitted_count, stats.queued_count, stats.pending_count) == (1, 1, 1)
    controller.release("a")
    assert controller.try_admit("b", 50 * MiB, 0.3).is_admitted()
    controller.release("b")
    stats = controller.stats()
    assert stats.reserved_memory == 0 and stats.reserved_bandwidth == 0.0 and stats.available_bandwidth == 1.0
    with pytest.raises(ValueError, match="task_id must be admitted or queued, got 'b'"):
        controller.release("b")


def test_reject_reasons():
    strict = AdmissionController(AdmissionConfig(1 << 30, 0.5, enable_best_effort=False))
    decision = strict.try_admit("a", 600 * MiB, 0.0)
    assert decision.is_rejected() and decision.reject_reason() == RejectReason.InsufficientBandwidth
    assert decision.decision_type == "Reject"
    decision = strict.try_admit("a", 2 << 30, 0.1)
    assert decision.reject_reason() == RejectReason.InsufficientMemory
    details = decision.rejection_reason
    assert (details.reason_type, details.requested_memory, details.available_memory) == (
        "InsufficientMemory", 2 << 30, 1 << 30,
    )  # fmt: skip
    assert str(2 << 30) in details.message()
    full = AdmissionController(AdmissionConfig(100, 1.0, max_pending_tasks=0))
    assert full.try_admit("a", 1, 0.0).reject_reason() == RejectReason.QueueFull


def test_bad_arguments():
    controller = AdmissionController(AdmissionConfig(100, 1.0))
    for memory, bandwidth in ((-1, 0.0), (1, -0.1), (1, float("nan"))):
        with pytest.raises(ValueError):
            controller.try_admit("a", memory, bandwidth)
    controller.try_admit("a", 1, 0.0)
    with pytest.raises(ValueError, match="not be admitted already"):
        controller.try_admit("a", 1, 0.0)


def test_every_class_has_a_repr():
    controller = AdmissionController(AdmissionConfig(100, 1.0, enable_best_effort=False))
    decision = controller.try_admit("a", 200, 0.0)
    for thing in (controller, AdmissionConfig(1, 1.0), decision, decision.rejection_reason, controller.stats()):
        assert repr(thing).startswith(type(thing).__name__ + "(")
    for name in ("AdmissionConfig", "AdmissionController", "AdmissionDecision", "AdmissionStats", "RejectReason",
                 "RejectReasonDetails"):  # fmt: skip
        assert getattr(runtime, name) is getattr(runtime.scheduler, name)


def play(requests):
    controller = AdmissionController(AdmissionConfig(1000, 1.0, max_pending_tasks=20))
    admitted = {}
    log = ""
    for number, (task, memory, bandwidth) in enumerate(requests):
        name = f"t{task}"
        if name in admitted:
            controller.release(name)
            del admitted[name]
        elif controller.try_admit(name, memory, bandwidth).is_admitted():
            admitted[name] = memory
        assert controller.stats().reserved_memory == sum(admitted.values()) <= 1000
        assert controller.stats().reserved_bandwidth <= 1.0
        assert controller.stats().pending_count <= 20
        if number % 1000 == 999:  # the ring keeps 4096
            log += controller.decision_log(after=json.loads(log.splitlines()[-1])["number"] if log else 0)
    for name in admitted:
        controller.release(name)
    assert controller.stats().reserved_memory == 0 and controller.stats().reserved_bandwidth == 0.0
    return log


def test_the_same_requests_give_the_same_log():
    draw = random.Random(5)
    requests = [(draw.randrange(60), draw.randrange(400), draw.random() / 4) for _ in range(10_000)]
    log = play(requests)
    assert log == play(requests)
    events = [json.loads(line) for line in log.splitlines()]
    assert len(events) == 10_000 and [event["number"] for event in events] == list(range(1, 10_001))
    assert {event["action"] for event in events} == {"admit", "queue", "reject", "release"}
    assert all("reason" in event for event in events if event["action"] in ("admit", "queue", "reject"))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 1200), st.floats(0, 1)), max_size=60))
def test_no_overcommit(requests):
    play(requests)
