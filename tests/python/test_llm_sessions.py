"""A model goes on working when the session around it changes: its graphs are captured anew."""

from __future__ import annotations

import pytest
from llm_case import golden

import pygpukit as gp
from pygpukit import _core, runtime
from pygpukit.llm import load_model_from_safetensors
from pygpukit.scheduler.execution import MB, context_session, create_context

GREEDY = {"temperature": 0.0}


@pytest.fixture
def partitions():
    """A manager of partitions of a CPU with 132 pretend multiprocessors."""
    _core._set_host_sms(132)
    manager = runtime.PartitionManager(device="cpu")
    with gp.device("cpu"):
        yield manager
    manager.clear()
    _core._set_host_sms(0)


def share(compute):
    return runtime.PartitionLimits().compute(compute)


def test_generate_outside_and_inside_a_session(fresh_contexts, assets):
    _, ids = golden(assets, "stories260K")
    model = load_model_from_safetensors(assets / "stories260K")
    contexts = [create_context(name, max_vram=64 * MB) for name in "ab"]
    for length in (8, 20, 35):
        assert model.generate(ids[:5], length, **GREEDY) == ids[: 5 + length]
        for context in contexts:
            with context_session(context):
                assert model.generate(ids[:5], length, **GREEDY) == ids[: 5 + length]


def test_one_request_through_many_sessions(partitions, assets):
    """Each of its steps somewhere else; a partition that changes its size."""
    _, ids = golden(assets, "stories260K")
    model = load_model_from_safetensors(assets / "stories260K")
    partitions.create_partition("small", "small", share(0.25))
    partitions.create_partition("large", "large", share(0.5))
    model.init_fixed_cache(64)
    model.prefill_fixed_cache(ids[:5])
    engine = model.engine(max_sequences=2, verify_graphs=True)
    name = engine.submit(ids[:5], 40, **GREEDY)
    text = []
    for i in range(40):
        if i % 9 == 8:
            partitions.resize_partition("small", share(0.125 * (1 + i // 9 % 3)))
        with gp.device("cpu") if i % 3 == 0 else partitions.session("small" if i % 3 == 1 else "large"):
            text.append(engine.next(name).id)
            assert int(model.decode_step_graph(ids[5 + i], 5 + i).to_numpy().argmax()) == ids[6 + i]
    assert text == ids[5:45]
    assert engine.num_graphs == 1


def test_graphs_of_each_level_of_determinism(device, assets):
    """What a graph holds was chosen for the level of its capture."""
    _, ids = golden(assets, "stories260K")
    model = load_model_from_safetensors(assets / "stories260K")
    engine = model.engine()
    for count, level in ((1, "run_to_run"), (2, "batch_invariant"), (2, "run_to_run"), (2, "batch_invariant")):
        with gp.determinism(level):
            name = engine.submit(ids[:5], 6, **GREEDY)
            assert [engine.next(name).id for _ in range(6)] == ids[5:11]
        assert engine.num_graphs == count
