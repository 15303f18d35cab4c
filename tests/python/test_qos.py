"""runtime.Qos*."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pygpukit import runtime
from pygpukit.errors import Error, OutOfMemoryError
from pygpukit.runtime import QosClass, QosPolicy, QosPolicyEvaluator, QosTaskMeta, ResourceRequirements

MiB = 1 << 20
GUARANTEED, BURSTABLE, BEST_EFFORT = QosClass.Guaranteed, QosClass.Burstable, QosClass.BestEffort


def test_classes():
    assert [(c.name, c.value) for c in QosClass] == [("Guaranteed", 0), ("Burstable", 1), ("BestEffort", 2)]
    assert [c.priority() for c in QosClass] == [100, 50, 0]
    assert [c.memory_overcommit_ratio() for c in QosClass] == [1.0, 1.5, 2.0]
    assert [c.bandwidth_ratio() for c in QosClass] == [1.0, 0.8, 0.5]
    assert GUARANTEED.can_preempt(BURSTABLE) and not BURSTABLE.can_preempt(BURSTABLE)
    assert not BEST_EFFORT.can_preempt(GUARANTEED)


def test_requirements_decide_the_class():
    assert ResourceRequirements(100, 100).qos_class == GUARANTEED
    assert ResourceRequirements(100, memory_limit=200).qos_class == BURSTABLE
    assert ResourceRequirements(100).qos_class == BURSTABLE
    assert ResourceRequirements.best_effort().qos_class == BEST_EFFORT
    assert ResourceRequirements.guaranteed(5).memory_limit == 5
    assert ResourceRequirements.burstable(100, 1.5).memory_limit == 150
    plain = ResourceRequirements(memory_request=7)
    assert (plain.memory_limit, plain.bandwidth_request, plain.bandwidth_limit) == (None, 0.0, 1.0)
    for bad in (lambda: ResourceRequirements(2, 1), lambda: ResourceRequirements.burstable(1, 0.5)):
        with pytest.raises(ValueError):
            bad()


def test_policies():
    assert QosPolicy.guaranteed(100).memory_to_reserve() == 100
    assert QosPolicy.burstable(100, 2.0).memory_to_reserve() == 100
    assert QosPolicy.best_effort().memory_to_reserve() == 0
    assert QosPolicy.burstable(100, 2.0).qos_class == BURSTABLE
    assert QosPolicy(ResourceRequirements(1, 2, 0.25)).bandwidth_to_reserve() == 0.25


def test_tasks():
    guaranteed = QosTaskMeta.guaranteed("g", "G", 256 * MiB)
    burstable = QosTaskMeta.burstable("b", "B", 128 * MiB, 2.0)
    best_effort = QosTaskMeta.best_effort("e", "E")
    assert (guaranteed.id, guaranteed.name, guaranteed.qos_class) == ("g", "G", GUARANTEED)
    assert guaranteed.memory_request == guaranteed.memory_limit == 256 * MiB
    assert (burstable.memory_limit, burstable.burst_ratio, burstable.bandwidth_request) == (256 * MiB, 2.0, 0.0)
    assert best_effort.qos_class == BEST_EFFORT and best_effort.memory_request == 0
    order = [guaranteed, burstable, QosTaskMeta("p", "P", ResourceRequirements(0), priority=10**9), best_effort]
    ranks = [task.effective_priority() for task in order]
    assert ranks == sorted(ranks, reverse=True) and len(set(ranks)) == 4


def test_rules():
    evaluator = QosPolicyEvaluator(total_memory=1024 * MiB, total_bandwidth=0.5)
    result = evaluator.evaluate(QosTaskMeta.guaranteed("g", "g", 800 * MiB))
    assert result.is_admitted() and result.decision_type == "Admit" and result.reserved_memory == 800 * MiB
    assert result.qos_class == GUARANTEED and result.reject_reason is None
    evaluator.reserve(result)
    assert evaluator.stats().guaranteed_memory == 800 * MiB
    rejected = evaluator.evaluate(QosTaskMeta.guaranteed("h", "h", 300 * MiB))
    assert rejected.is_rejected() and "memory" in rejected.reject_reason
    with pytest.raises(Error, match="was rejected"):
        evaluator.reserve(rejected)
    with pytest.raises(OutOfMemoryError):
        evaluator.reserve(result)
    assert evaluator.evaluate(QosTaskMeta.burstable("b", "b", 100 * MiB, 3.0)).is_throttled()
    fitting = evaluator.evaluate(QosTaskMeta.burstable("b", "b", 224 * MiB, 1.0))
    assert fitting.is_admitted()
    assert evaluator.evaluate(QosTaskMeta.best_effort("e", "e")).is_admitted()
    evaluator.reserve(fitting)
    queued = evaluator.evaluate(QosTaskMeta.best_effort("e", "e"))
    assert queued.is_queued() and queued.decision_type == "Queue"
    evaluator.reserve(queued)
    stats = evaluator.stats()
    assert (stats.burstable_memory, stats.available_memory, stats.best_effort_queue) == (224 * MiB, 0, 1)
    assert (stats.total_memory, stats.total_bandwidth) == (1024 * MiB, 0.5)
    evaluator.release(GUARANTEED, 800 * MiB, 0.0)
    evaluator.release(qos_class=BEST_EFFORT, memory=0, bandwidth=0.0)
    assert evaluator.stats().best_effort_queue == 0
    with pytest.raises(ValueError):
        evaluator.release(GUARANTEED, 1, 0.0)
    evaluator.reset()
    assert evaluator.stats().available_memory == 1024 * MiB
    actions = [json.loads(line)["action"] for line in evaluator.decision_log().splitlines()]
    assert actions == ["admit", "reject", "throttle", "admit", "admit", "queue"]


def test_eviction_order():
    usage = runtime.scheduler.QosUsage
    usages = [
        usage(GUARANTEED, 0, 100, 100),
        usage(BURSTABLE, 0, 100, 150),
        usage(BURSTABLE, 0, 100, 300),
        usage(BURSTABLE, 5, 100, 900),
        usage(BEST_EFFORT, 9, 0, 10),
        usage(GUARANTEED, 0, 100, 101),
    ]
    assert runtime.scheduler.eviction_order(usages) == [4, 2, 1, 3, 5]
    assert runtime.scheduler.eviction_order([]) == []


def test_every_class_has_a_repr():
    evaluator = QosPolicyEvaluator(100)
    task = QosTaskMeta.guaranteed("g", "g", 10)
    things = [evaluator, task, evaluator.evaluate(task), evaluator.stats(), QosPolicy.best_effort(),
              ResourceRequirements(1)]  # fmt: skip
    for thing in things:
        name = type(thing).__name__
        assert repr(thing).startswith(name + "(")
        assert getattr(runtime, name) is getattr(runtime.scheduler, name)
    assert runtime.QosClass is runtime.scheduler.QosClass


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 600), st.floats(1.0, 4.0), st.integers(0, 5)),
        max_size=40,
    )
)
def test_no_overcommit(steps):
    evaluator = QosPolicyEvaluator(1000)
    held = []
    for guaranteed, memory, ratio, pick in steps:
        if pick == 0 and held:
            one = held.pop()
            evaluator.release(one.qos_class, one.reserved_memory, one.reserved_bandwidth)
        task = (
            QosTaskMeta.guaranteed("g", "g", memory) if guaranteed else QosTaskMeta.burstable("b", "b", memory, ratio)
        )
        result = evaluator.evaluate(task)
        assert result.is_rejected() == (memory > evaluator.stats().available_memory)
        if not result.is_rejected():
            evaluator.reserve(result)
            held.append(result)
        stats = evaluator.stats()
        assert stats.available_memory == 1000 - sum(one.reserved_memory for one in held) >= 0
